//! The catalog's commands: who is in the cluster, and which name is which entity on which group.

use std::collections::BTreeSet;

use crate::catalog::FEATURE_LEVEL_FOUNDED;
use crate::machine::data_groups::DataGroups;
use crate::machine::directory_sizes::DirectorySizes;
use crate::machine::documents::Documents;
use crate::machine::ended_creations::EndedCreations;
use crate::machine::fault_rules::FaultRules;
use crate::machine::join_tokens::{JoinTokens, Joining};
use crate::machine::members::Members;
use crate::machine::namespaces::Namespaces;
use crate::machine::restoration::{Restoration, check_not_restoring};
use crate::machine::rules::check_rule;
use crate::machine::view::View;
use crate::read::DIRECTORY_END;
use crate::validate::InProfile;
use crate::{
    CatalogCommand, CatalogOutcome, ClusterRow, Creation, DirectoryRow, DirectoryState, EntityId,
    EntityKind, GroupId, GroupRow, Key, Namespace, NewNamespace, NewRule, NodeRow, Outcome,
    Profile, QueueProperties, Refusal, Row, Rows, SUBSCRIPTIONS_MAX, Span, SubQueue,
    SubscriptionProperties, Timestamp, namespace_of, subscription_path, validate,
};

fn entry(row: DirectoryRow, fresh: bool) -> Result<Outcome, Refusal> {
    Ok(Outcome::Catalog(CatalogOutcome::Entry { row, fresh }))
}

/// The directory of names, and the cluster's description. A catalog's group has no entities.
pub(super) struct Catalog<'s, R> {
    pub at: Timestamp,
    /// As in `Meta`.
    pub unbroken_since: Timestamp,
    pub sizes: &'s mut Option<DirectorySizes>,
    pub view: &'s mut View<R>,
}

impl<R: Rows> Catalog<'_, R> {
    pub fn apply(&mut self, command: CatalogCommand) -> Result<Outcome, Refusal> {
        match command {
            CatalogCommand::Found { cluster_id, data_groups, replication_factor, nodes } => {
                self.found(cluster_id, data_groups, replication_factor, nodes)
            }
            CatalogCommand::Create { request, name, properties } => {
                self.create(request, name, Creation::Queue { properties })
            }
            CatalogCommand::CreateTopic { request, name, properties } => {
                self.create(request, name, Creation::Topic { properties })
            }
            CatalogCommand::CreateSubscription { request, topic, name, properties, rule } => {
                self.create_subscription(request, &topic, &name, properties, rule)
            }
            CatalogCommand::Created { name, entity } => self.created(&name, entity),
            CatalogCommand::Withdraw { name, entity } => self.withdraw(&name, entity),
            CatalogCommand::Delete { name } => self.delete(&name),
            CatalogCommand::Deleted { name, entity } => self.deleted(&name, entity),
            CatalogCommand::Seal { name, entity, idle_since } => {
                self.seal(&name, entity, idle_since)
            }
            CatalogCommand::Spare { name, entity, idle_since } => {
                self.spare(&name, entity, idle_since)
            }
            CatalogCommand::SetNode { node, row } => {
                self.view.put(Key::Node(node), Row::Node(row));
                Ok(Outcome::Done)
            }
            CatalogCommand::AddNode { node, row } => self.members().add_node(node, row),
            CatalogCommand::Drain { node, cancel } => self.members().drain(node, cancel),
            CatalogCommand::SetMaintenance { node, on } => self.members().set_maintenance(node, on),
            CatalogCommand::Remove { node, dead } => self.members().remove(node, dead),
            CatalogCommand::MoveReplica { group, from, to, moves } => {
                self.members().move_replica(group, from, to, moves)
            }
            CatalogCommand::CreateJoinToken { id, secret_hash, lasts, node } => {
                self.join_tokens().create(id, secret_hash, lasts, node)
            }
            CatalogCommand::RevokeJoinToken { id } => Ok(self.join_tokens().revoke(id)),
            CatalogCommand::Join { token, secret_hash, request, node, row } => {
                self.join_tokens().join(token, secret_hash, Joining { request, node, row: *row })
            }
            CatalogCommand::AddGroups { data_groups, directories } => {
                self.data_groups().add(data_groups, directories)
            }
            CatalogCommand::OpenGroups { data_groups } => self.data_groups().open(data_groups),
            CatalogCommand::RaiseFeatureLevel { level, nodes } => {
                self.members().raise_feature_level(level, &nodes)
            }
            CatalogCommand::BeginRestore { restore, taken_at } => {
                self.restoration().begin(restore, taken_at)
            }
            CatalogCommand::RestoreNames { restore, rows } => {
                *self.sizes = None;
                self.restoration().name(restore, rows)
            }
            CatalogCommand::EndRestore { restore, next_entity } => {
                self.restoration().end(restore, next_entity)
            }
            CatalogCommand::SetGroup { name, entity, from, group } => {
                self.set_group(&name, entity, from, group)
            }
            CatalogCommand::PutFaultRule { name, text, lasts } => {
                self.fault_rules().put(name, text, lasts)
            }
            CatalogCommand::RemoveFaultRules { name } => Ok(self.fault_rules().remove(name)),
            CatalogCommand::CreateNamespace { request, name, authorization_rules } => {
                let (profile, auto_delete_on_idle) = (Profile::SelfHosted, Span::MAX);
                let new = NewNamespace { name, profile, auto_delete_on_idle, authorization_rules };
                self.namespaces().create(request, new)
            }
            CatalogCommand::CreateNamespaceOf { request, new } => {
                self.namespaces().create(request, new)
            }
            CatalogCommand::ChangeProfile { request, name, profile } => {
                let entities = self.sizes().in_namespace(&Namespace::named(&name)?);
                self.namespaces().change_profile(request, &name, profile, entities)
            }
            CatalogCommand::SettleProfile { request, name, profile, fits } => {
                self.namespaces().settle_profile(request, &name, profile, fits)
            }
            CatalogCommand::UpdateNamespace { request, name, authorization_rules } => {
                self.namespaces().update(request, &name, authorization_rules)
            }
            CatalogCommand::DeleteNamespace { request, name, force } => {
                self.namespaces().delete(request, &name, force)
            }
            CatalogCommand::NamespaceDeleted { request, name } => {
                self.namespaces().deleted(request, &name)
            }
            CatalogCommand::RestoreNamespaces { restore, rows } => {
                self.restoration().check_under_way(restore)?;
                self.namespaces().restore(rows)
            }
            CatalogCommand::SetNamespaceIdle { request, name, window } => {
                self.namespaces().set_idle(request, &name, window)
            }
            CatalogCommand::UseNamespace { request, name, until } => {
                self.namespaces().use_until(request, &name, until)
            }
            CatalogCommand::SealNamespace { request, name } => {
                self.namespaces().seal(request, &name)
            }
            CatalogCommand::DeleteIdleNamespace { request, name } => {
                self.namespaces().delete_idle(request, &name)
            }
            CatalogCommand::PutDocument { name, text, is_new } => {
                self.documents().put(name, text, is_new)
            }
            CatalogCommand::RemoveDocument { name } => Ok(self.documents().remove(name)),
        }
    }

    fn join_tokens(&mut self) -> JoinTokens<'_, R> {
        JoinTokens { at: self.at, members: Members { view: self.view } }
    }

    fn data_groups(&mut self) -> DataGroups<'_, R> {
        DataGroups { members: self.members() }
    }

    fn fault_rules(&mut self) -> FaultRules<'_, R> {
        FaultRules { at: self.at, members: Members { view: self.view } }
    }

    fn namespaces(&mut self) -> Namespaces<'_, R> {
        let (at, unbroken_since) = (self.at, self.unbroken_since);
        Namespaces { at, unbroken_since, members: Members { view: self.view } }
    }

    fn documents(&mut self) -> Documents<'_, R> {
        Documents { at: self.at, members: Members { view: self.view } }
    }

    fn ended_creations(&mut self) -> EndedCreations<'_, R> {
        EndedCreations { at: self.at, view: self.view }
    }

    fn restoration(&mut self) -> Restoration<'_, R> {
        Restoration { at: self.at, members: Members { view: self.view } }
    }

    fn members(&mut self) -> Members<'_, R> {
        Members { view: self.view }
    }

    /// The first node that forms the cluster decides; a repeat changes nothing.
    fn found(
        &mut self,
        cluster_id: u128,
        data_groups: u16,
        replication_factor: u8,
        nodes: Vec<(u64, NodeRow)>,
    ) -> Result<Outcome, Refusal> {
        if self.view.cluster().is_some() {
            return Ok(Outcome::Done);
        }
        let ids: BTreeSet<u64> = nodes.iter().map(|(id, _)| *id).collect();
        let missing = |what, why: &str| Err(Refusal::Argument { what, why: why.to_owned() });
        if ids.is_empty() {
            return missing("nodes", "a cluster has at least one");
        }
        if data_groups == 0 {
            return missing("data groups", "a cluster has at least one");
        }
        if replication_factor == 0 {
            return missing("replication factor", "a group has at least one replica");
        }
        let (next_entity, feature_level) = (1, FEATURE_LEVEL_FOUNDED);
        let row =
            ClusterRow { cluster_id, data_groups, replication_factor, next_entity, feature_level };
        self.view.insert(Key::Cluster, Row::Cluster(row));
        for (id, row) in nodes {
            self.view.put(Key::Node(id), Row::Node(row));
        }
        // Every node holds the catalog, so that routing reads local rows.
        let ids: Vec<u64> = ids.into_iter().collect();
        let catalog = GroupRow { replicas: ids.clone() };
        self.view.put(Key::Group(GroupId::CATALOG), Row::Group(catalog));
        for group in 1..=data_groups {
            let count = ids.len().min(usize::from(replication_factor));
            let first = usize::from(group - 1);
            let replicas = (0..count).map(|offset| ids[(first + offset) % ids.len()]).collect();
            self.view.put(Key::Group(GroupId(group)), Row::Group(GroupRow { replicas }));
        }
        Ok(Outcome::Done)
    }

    /// ENT-2. Meeting an unfinished creation or deletion, of whatever kind, it answers with that: the
    /// caller finishes it first.
    fn create(&mut self, request: u64, name: String, what: Creation) -> Result<Outcome, Refusal> {
        check_not_restoring(self.view)?;
        let level = self.view.level;
        level.queue_name(&name)?;
        self.namespaces().check_open(&namespace_of(&name))?;
        if let Some(met) = self.meet(request, &name) {
            return met;
        }
        match &what {
            Creation::Queue { properties } => {
                level.queue_properties(properties)?;
                self.check_destinations(&name, properties)?;
            }
            Creation::Topic { properties } => validate::topic_properties(properties)?,
            Creation::Subscription { properties, .. } => {
                level.subscription_properties(properties)?;
            }
        }
        self.check_profile(&name, &what)?;
        let cluster = self.members().formed()?;
        let group = self.sizes().least(cluster.data_groups);
        self.intend(request, name, group, what, cluster)
    }

    /// On the group of its topic: a publish and all its copies are one entry there.
    fn create_subscription(
        &mut self,
        request: u64,
        topic: &str,
        name: &str,
        properties: Box<SubscriptionProperties>,
        rule: Box<NewRule>,
    ) -> Result<Outcome, Refusal> {
        check_not_restoring(self.view)?;
        let level = self.view.level;
        level.subscription_name(name)?;
        let topic = match self.view.directory(&topic.to_ascii_lowercase()) {
            Some(row) if row.kind == EntityKind::Topic && row.is_there() => row,
            _ => return Err(Refusal::EntityNotFound { name: topic.to_owned() }),
        };
        let path = subscription_path(&topic.name, name);
        self.namespaces().check_open(&namespace_of(&path))?;
        if let Some(met) = self.meet(request, &path) {
            return met;
        }
        level.subscription_properties(&properties)?;
        self.check_destinations(&path, &properties.common(Span::MAX))?;
        check_rule(level, &rule)?;
        let used = self.paths_of(&topic.name).len() as u64;
        let max = u64::from(SUBSCRIPTIONS_MAX);
        if used >= max {
            let what = "the topic (subscriptions)";
            return Err(Refusal::QuotaExceeded { what, used, max }); // QUOTA-7.
        }
        let what = Creation::Subscription { topic: topic.entity, properties, rule };
        self.check_profile(&path, &what)?;
        let cluster = self.members().formed()?;
        self.intend(request, path, topic.group, what, cluster)
    }

    /// QUOTA-0: what is created is what its namespace takes.
    fn check_profile(&mut self, name: &str, what: &Creation) -> Result<(), Refusal> {
        let namespace = namespace_of(name);
        for profile in self.namespaces().profiles(&namespace) {
            let within = InProfile { profile, namespace: &namespace };
            match what {
                Creation::Queue { properties } => within.created(&**properties)?,
                Creation::Topic { properties } => within.created(&**properties)?,
                Creation::Subscription { properties, .. } => within.created(&**properties)?,
            }
            if what.kind() != EntityKind::Subscription {
                within.has_room(self.sizes().in_namespace(&namespace))?;
            }
        }
        Ok(())
    }

    /// FWD-2.
    fn check_destinations(
        &mut self,
        name: &str,
        properties: &QueueProperties,
    ) -> Result<(), Refusal> {
        self.view.level.new_forwarding(name, properties)?;
        for sub in SubQueue::ALL {
            let Some(to) = properties.forwards(sub) else { continue };
            let row = self.view.directory(&to.to_ascii_lowercase());
            if row.is_none_or(|row| row.destination().is_none()) {
                return Err(Refusal::EntityNotFound { name: to.to_owned() });
            }
        }
        Ok(())
    }

    /// The answer where the name is taken already, or the creation was carried out long ago.
    fn meet(&mut self, request: u64, name: &str) -> Option<Result<Outcome, Refusal>> {
        let Some(row) = self.view.directory(&name.to_ascii_lowercase()) else {
            let why = "this creation was carried out, and the entity was deleted since";
            let ended = self.ended_creations().has(request);
            return ended.then_some(Err(Refusal::InvalidOperation { why }));
        };
        let own = row.request == request;
        Some(match row.state {
            DirectoryState::Ready if !own => Err(Refusal::EntityAlreadyExists { name: row.name }),
            DirectoryState::Deleting => entry(row, false),
            DirectoryState::Ready
            | DirectoryState::Creating { .. }
            | DirectoryState::Sealing { .. } => entry(row, own),
        })
    }

    fn intend(
        &mut self,
        request: u64,
        name: String,
        group: GroupId,
        what: Creation,
        mut cluster: ClusterRow,
    ) -> Result<Outcome, Refusal> {
        let entity = EntityId(cluster.next_entity);
        cluster.next_entity += 1;
        self.view.replace(Key::Cluster, Row::Cluster(cluster));
        let key = Key::Directory(name.to_ascii_lowercase());
        let (kind, state) = (what.kind(), DirectoryState::Creating { what });
        let row = DirectoryRow { entity, group, name, kind, request, state };
        self.sizes().add(&row);
        self.view.insert(key, Row::Directory(row.clone()));
        entry(row, true)
    }

    /// The keys of a topic's subscriptions.
    fn paths_of(&mut self, topic: &str) -> Vec<Key> {
        let key = |name: &str| Key::Directory(subscription_path(topic, name).to_ascii_lowercase());
        let (from, to) = (key(""), key(&DIRECTORY_END.to_string()));
        self.view.keys(&from, &to, SUBSCRIPTIONS_MAX as usize)
    }

    fn created(&mut self, name: &str, entity: EntityId) -> Result<Outcome, Refusal> {
        let mut row = self.named(name, entity)?;
        let fresh = matches!(row.state, DirectoryState::Creating { .. });
        if fresh {
            row.state = DirectoryState::Ready;
            self.put_directory(row.clone());
        }
        entry(row, fresh)
    }

    fn withdraw(&mut self, name: &str, entity: EntityId) -> Result<Outcome, Refusal> {
        let mut row = self.named(name, entity)?;
        let fresh = matches!(row.state, DirectoryState::Creating { .. });
        if fresh {
            row.state = DirectoryState::Deleting;
            self.put_directory(row.clone());
        }
        entry(row, fresh)
    }

    fn delete(&mut self, name: &str) -> Result<Outcome, Refusal> {
        let Some(mut row) = self.view.directory(&name.to_ascii_lowercase()) else {
            return Err(Refusal::EntityNotFound { name: name.to_owned() });
        };
        let fresh = row.state != DirectoryState::Deleting;
        if fresh {
            row.state = DirectoryState::Deleting;
            self.put_directory(row.clone());
        }
        entry(row, fresh)
    }

    /// ENT-7, IDLE-17. A repeat finds the name free, or another entity under it, and changes nothing.
    fn deleted(&mut self, name: &str, entity: EntityId) -> Result<Outcome, Refusal> {
        let Ok(row) = self.named(name, entity) else { return Ok(Outcome::Done) };
        let mut keys = vec![Key::Directory(name.to_ascii_lowercase())];
        if row.kind == EntityKind::Topic {
            keys.extend(self.paths_of(&row.name));
        }
        for key in keys {
            if let Some(Row::Directory(gone)) = self.view.get(&key) {
                self.ended_creations().remember(gone.request);
                self.sizes().remove(&gone);
            }
            self.view.delete(key);
        }
        Ok(Outcome::Done)
    }

    fn set_group(
        &mut self,
        name: &str,
        entity: EntityId,
        from: GroupId,
        group: GroupId,
    ) -> Result<Outcome, Refusal> {
        let Ok(row) = self.named(name, entity) else { return Ok(Outcome::Done) };
        let mut keys = vec![Key::Directory(row.name.to_ascii_lowercase())];
        if row.kind == EntityKind::Topic {
            keys.extend(self.paths_of(&row.name));
        }
        for key in keys {
            if let Some(Row::Directory(mut row)) = self.view.get(&key)
                && row.group == from
            {
                self.sizes().remove(&row);
                row.group = group;
                self.sizes().add(&row);
                self.view.replace(key, Row::Directory(row));
            }
        }
        Ok(Outcome::Done)
    }

    /// IDLE-15: an intent only, which whoever finds it finishes.
    fn seal(
        &mut self,
        name: &str,
        entity: EntityId,
        idle_since: Timestamp,
    ) -> Result<Outcome, Refusal> {
        let mut row = self.named(name, entity)?;
        let fresh = row.state == DirectoryState::Ready;
        if fresh {
            row.state = DirectoryState::Sealing { idle_since };
            self.put_directory(row.clone());
        }
        entry(row, fresh)
    }

    /// A repeat finds the intent withdrawn, or another or a user's deletion in its place, and changes
    /// nothing.
    fn spare(
        &mut self,
        name: &str,
        entity: EntityId,
        idle_since: Timestamp,
    ) -> Result<Outcome, Refusal> {
        if let Ok(mut row) = self.named(name, entity)
            && row.state == (DirectoryState::Sealing { idle_since })
        {
            row.state = DirectoryState::Ready;
            self.put_directory(row);
        }
        Ok(Outcome::Done)
    }

    /// The directory's row, if it is about this entity.
    fn named(&mut self, name: &str, entity: EntityId) -> Result<DirectoryRow, Refusal> {
        let row = self.view.directory(&name.to_ascii_lowercase());
        row.filter(|row| row.entity == entity)
            .ok_or_else(|| Refusal::EntityNotFound { name: name.to_owned() })
    }

    fn put_directory(&mut self, row: DirectoryRow) {
        self.view.replace(Key::Directory(row.name.to_ascii_lowercase()), Row::Directory(row));
    }

    fn sizes(&mut self) -> &mut DirectorySizes {
        let Catalog { sizes, view, .. } = self;
        sizes.get_or_insert_with(|| DirectorySizes::of(view))
    }
}
