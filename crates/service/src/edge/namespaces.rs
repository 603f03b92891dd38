//! Namespaces (NS): which there are, which one a host name means, and what operators do with them.

use std::ops::ControlFlow;
use std::sync::Arc;

use auth::{Access, Key as AccessKey, Keyring};
use domain::{
    AuthorizationRule, CatalogCommand, CatalogOutcome, DEFAULT_NAMESPACE, DirectoryRow, EntityInfo,
    EntityKind, FEATURE_LEVEL_NAMESPACES, FEATURE_LEVEL_PROFILES, Key, Namespace, NamespaceIdleRow,
    NamespaceRow, NamespaceState, NewNamespace, Outcome, Profile, QUALIFIED_END, Refusal, Row,
    Rows, Span, Timestamp,
};
use futures::StreamExt;
use futures::stream;
use tokio::time::Instant;

use crate::edge::authorization::{namespace_key, settle};
use crate::edge::catalog::{self, Catalog};
use crate::edge::cluster::Cluster;
use crate::edge::entities::Entities;
use crate::edge::heard::heard;
use crate::edge::intents::Intents;
use crate::edge::namespace_use::idle_row;
use crate::edge::profiles;
use crate::edge::receiver::unexpected;
use crate::edge::router::Router;
use crate::error::{Error, Result};

const WHAT: &str = "namespace";
/// Names of entities that are looked up at a time.
const PAGE: u32 = 200;
/// Entities that are deleted at a time.
const AT_ONCE_MAX: usize = 16;

/// A namespace, as this node has heard of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceInfo {
    pub row: NamespaceRow,
    /// Where it goes once it is idle (NS-9).
    pub idle: Option<NamespaceIdleRow>,
    /// Queues and topics in it.
    pub entities: u32,
}

impl NamespaceInfo {
    fn of(rows: &impl Rows, row: NamespaceRow) -> NamespaceInfo {
        NamespaceInfo { idle: idle_row(rows, &row.name), entities: entities(rows, &row.name), row }
    }
}

/// The namespaces of the cluster.
#[derive(Clone, Copy)]
pub struct Namespaces<'a> {
    pub(super) router: &'a Arc<Router>,
}

impl<'a> Namespaces<'a> {
    pub(super) fn new(router: &'a Arc<Router>) -> Namespaces<'a> {
        Namespaces { router }
    }

    /// NS-5: the one that a host name means: what its first label says, if there is a namespace of that name, and
    /// else the default one. The host may have a port behind it. By what this node knows: see
    /// [`Namespaces::caught_up`].
    pub fn of_host(self, host: &str) -> Namespace {
        let possible = possible(host).filter(|namespace| self.is_known(namespace));
        possible.unwrap_or(Namespace::DEFAULT)
    }

    /// As [`Namespaces::of_host`], once this node knows.
    ///
    /// # Errors
    /// As of [`Namespaces::caught_up`].
    pub async fn meant_by(self, host: &str) -> Result<Namespace> {
        if possible(host).is_some_and(|namespace| !self.is_known(&namespace)) {
            self.caught_up().await?;
        }
        Ok(self.of_host(host))
    }

    /// The one that a client asks for by its name.
    ///
    /// # Errors
    /// NS-5: there is none of that name; or as of [`Namespaces::caught_up`].
    pub async fn named(self, name: &str) -> Result<Namespace> {
        let refused = |refusal: Refusal| Error::new(refusal, "");
        let namespace = Namespace::named(name).map_err(refused)?;
        if namespace.is_default() || self.is_known(&namespace) {
            return Ok(namespace);
        }
        self.caught_up().await?;
        match self.is_known(&namespace) {
            true => Ok(namespace),
            false => Err(missing(namespace.as_str())),
        }
    }

    /// NS-5: resolves once this node has heard of all namespaces that were there when it started. It may have been
    /// away while some were created, and a host that names one of them must not come to mean the default one.
    ///
    /// # Errors
    /// The catalog has no leader that tells it.
    pub async fn caught_up(self) -> Result<()> {
        self.router.wait_caught_up().await
    }

    /// The default one.
    pub fn default_one(self) -> NamespaceInfo {
        NamespaceInfo::of(&self.router.local.catalog(), self.default_row())
    }

    /// Those beside the default one, in the order of their names.
    pub fn list(self) -> Vec<NamespaceInfo> {
        let rows = self.router.local.catalog();
        let others = self.rows().into_iter().filter(|row| row.name != DEFAULT_NAMESPACE);
        others.map(|row| NamespaceInfo::of(&rows, row)).collect()
    }

    /// As they are written, without a look at what is in them; the default one's where it has one.
    pub fn rows(self) -> Vec<NamespaceRow> {
        let rows = self.router.local.catalog();
        let (from, to) = (Key::Namespace(String::new()), Key::Namespace(char::MAX.to_string()));
        let mut found = Vec::new();
        rows.scan(&from, &to, &mut |_, row| {
            if let Row::Namespace(row) = row {
                found.push(*row);
            }
            ControlFlow::Continue(())
        });
        found
    }

    /// # Errors
    /// There is none of that name.
    pub async fn get(self, name: &str) -> Result<NamespaceInfo> {
        match Namespace::named(name) {
            Ok(namespace) if namespace.is_default() => Ok(self.default_one()),
            Ok(_) | Err(_) => {
                let row = self.known(name).await?;
                Ok(NamespaceInfo::of(&self.router.local.catalog(), row))
            }
        }
    }

    /// NS-2, NS-7, NS-9: keys that are left out are drawn. Returns once all nodes that answer know it.
    ///
    /// # Errors
    /// NS-2: the name is none, is taken, or is that of a node's host.
    pub async fn create(
        self,
        mut new: NewNamespace,
        request: Option<u64>,
    ) -> Result<NamespaceInfo> {
        let refused = |refusal: Refusal| Error::new(refusal, "");
        new.name = new.name.to_ascii_lowercase();
        domain::namespace_name(&new.name).map_err(refused)?;
        self.check_no_host(&new.name)?;
        settle(&[], &mut new.authorization_rules, self.router.local.clock.now());
        let request = request.unwrap_or_else(rand::random);
        let is_plain = new.profile == Profile::SelfHosted && new.auto_delete_on_idle.is_max();
        let (level, create) = if is_plain {
            let NewNamespace { name, authorization_rules, .. } = new;
            let create = CatalogCommand::CreateNamespace { request, name, authorization_rules };
            (FEATURE_LEVEL_NAMESPACES, create)
        } else {
            (FEATURE_LEVEL_PROFILES, CatalogCommand::CreateNamespaceOf { request, new })
        };
        Cluster::new(self.router).of_level(level, WHAT).await?;
        self.changed(create).await
    }

    /// NS-9: it goes once nobody has used it for so long; never with `Span::MAX`. Returns as [`Namespaces::create`].
    ///
    /// # Errors
    /// There is none of that name, or the time is too short (IDLE-1).
    pub async fn set_auto_delete_on_idle(self, name: &str, window: Span) -> Result<NamespaceInfo> {
        let NamespaceRow { name, request, .. } = self.known(name).await?;
        Cluster::new(self.router).of_level(FEATURE_LEVEL_PROFILES, WHAT).await?;
        self.changed(CatalogCommand::SetNamespaceIdle { request, name, window }).await
    }

    /// NS-7: these are its rules from now on; keys that are left out stay what they were. Returns as
    /// [`Namespaces::create`].
    ///
    /// # Errors
    /// There is none of that name.
    pub async fn update(
        self,
        name: &str,
        mut authorization_rules: Vec<AuthorizationRule>,
    ) -> Result<NamespaceInfo> {
        let NamespaceRow { name, request, authorization_rules: old, .. } = self.known(name).await?;
        settle(&old, &mut authorization_rules, self.router.local.clock.now());
        self.changed(CatalogCommand::UpdateNamespace { request, name, authorization_rules }).await
    }

    /// QUOTA-40: it behaves as another tier from now on; the default one may as well. Returns as [`Namespaces::create`].
    ///
    /// # Errors
    /// There is none of that name, or something in it does not fit, which is told.
    pub async fn change_profile(self, name: &str, profile: Profile) -> Result<NamespaceInfo> {
        let namespace = self.named(name).await?;
        let request = match namespace.is_default() {
            true => 0,
            false => self.known(name).await?.request,
        };
        profiles::change(self.router, &namespace, request, profile).await
    }

    /// NS-6: true once it is gone with all that was in it; false if that takes longer than a request may: it goes on,
    /// and whoever asks again waits on.
    ///
    /// # Errors
    /// There is none of that name; or it has entities, and `force` is not said.
    pub async fn delete(self, name: &str, force: bool) -> Result<bool> {
        let NamespaceRow { name, request, .. } = self.known(name).await?;
        let delete = CatalogCommand::DeleteNamespace { request, name, force };
        let NamespaceInfo { row, .. } = self.changed(delete).await?;
        let deadline = self.router.deadline();
        match finish_deletion(self.router, &row, deadline).await {
            Ok(()) => Ok(true),
            Err(error) if error.refusal().is_some() || Instant::now() < deadline => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Whether there is one.
    pub(super) fn is_known(self, namespace: &Namespace) -> bool {
        self.row(namespace).is_some()
    }

    /// What whoever knows a key may do in a namespace, where `node` says it for the default one (NS-7, NS-8).
    pub(super) fn keyring(self, namespace: &Namespace, node: &Keyring) -> Keyring {
        let (router, own) = (self.router.clone(), namespace.clone());
        let hosts = Arc::new(move |host: &str| Namespaces::new(&router).of_host(host) == own);
        match namespace.is_default() {
            true => node.for_hosts(namespace.as_str(), hosts),
            false => node.beside(namespace.as_str(), self.keys(namespace, node), hosts),
        }
    }

    /// NS-7: the namespace's own, and those of the cluster's operators.
    pub(super) fn keys(self, namespace: &Namespace, node: &Keyring) -> Vec<AccessKey> {
        let row = self.row(namespace);
        let rules = row.map(|row| row.authorization_rules).unwrap_or_default();
        let own = rules.into_iter().map(|rule| namespace_key(rule, namespace));
        let node = node.current();
        let of_operators = node.iter().filter(|key| key.rights.operate && key.scope.is_empty());
        own.chain(of_operators.cloned()).collect()
    }

    fn row(self, namespace: &Namespace) -> Option<NamespaceRow> {
        profiles::row(self.router, namespace)
    }

    /// Of the default one, as long as its profile is the one that it began with nobody wrote any down.
    fn default_row(self) -> NamespaceRow {
        self.row(&Namespace::DEFAULT).unwrap_or_else(|| NamespaceRow {
            name: DEFAULT_NAMESPACE.to_owned(),
            request: 0,
            created_at: Timestamp(0),
            modified_at: Timestamp(0),
            authorization_rules: Vec::new(),
            state: NamespaceState::Ready,
            profile: Profile::default(),
            next_profile: None,
        })
    }

    async fn known(self, name: &str) -> Result<NamespaceRow> {
        let namespace = Namespace::named(name).map_err(|refusal| Error::new(refusal, ""))?;
        if namespace.is_default() {
            let why = "the default namespace is always there; its keys stand in the configuration";
            return Err(Error::new(Refusal::InvalidOperation { why }, ""));
        }
        if let Some(row) = self.row(&namespace) {
            return Ok(row);
        }
        self.caught_up().await?;
        self.row(&namespace).ok_or_else(|| missing(namespace.as_str()))
    }

    /// NS-2: who reaches a node by its host means the default namespace.
    fn check_no_host(self, name: &str) -> Result<()> {
        let nodes = catalog::nodes(&self.router.local.catalog());
        for (node, row) in nodes {
            let addresses = [&row.peer_address, &row.grpc_address, &row.http_address];
            let label = |address: &String| {
                address.split(['.', ':']).next().is_some_and(|it| it.eq_ignore_ascii_case(name))
            };
            if addresses.into_iter().any(label) {
                let why = format!(
                    "'{name}' is how the host of node {node} is called, by which clients mean the default \
                     namespace; choose another name"
                );
                return Err(Error::new(Refusal::Argument { what: WHAT, why }, ""));
            }
        }
        Ok(())
    }

    pub(super) async fn changed(self, command: CatalogCommand) -> Result<NamespaceInfo> {
        let asked = Catalog::new(self.router).ask(command, "", self.router.deadline()).await?;
        let Outcome::Catalog(CatalogOutcome::Namespace(row)) = asked else {
            return Err(unexpected(&asked, "".into()));
        };
        let key = Key::Namespace(row.name.clone());
        heard(self.router, || match self.router.local.catalog().get(&key) {
            Some(Row::Namespace(here)) => *here == row || here.modified_at > row.modified_at,
            _ => false,
        })
        .await;
        Ok(NamespaceInfo::of(&self.router.local.catalog(), row))
    }
}

/// The one that a host name may mean beside the default one, whether it is there or not.
fn possible(host: &str) -> Option<Namespace> {
    let label = host.split(['.', ':']).next().unwrap_or_default();
    Namespace::named(label).ok().filter(|namespace| !namespace.is_default())
}

fn missing(name: &str) -> Error {
    let why = format!("there is none called '{name}'; 'mayfly namespace list' shows them");
    Error::new(Refusal::Argument { what: WHAT, why }, "")
}

/// What an `Access` is for clients of a namespace.
pub(super) fn access_in(
    namespaces: Namespaces<'_>,
    namespace: &Namespace,
    node: &Access,
) -> Access {
    match node {
        Access::Anyone => Access::Anyone,
        Access::Keys(ring) => Access::Keys(namespaces.keyring(namespace, ring)),
    }
}

/// Queues and topics of a namespace.
fn entities(rows: &impl Rows, name: &str) -> u32 {
    let Ok(namespace) = Namespace::named(name) else { return 0 };
    let prefix = namespace.prefix();
    let first = if namespace.is_default() { QUALIFIED_END } else { &prefix };
    let (from, to) =
        (Key::Directory(first.to_owned()), Key::Directory(format!("{prefix}{}", char::MAX)));
    let mut count = 0;
    rows.scan(&from, &to, &mut |_, row| {
        if let Row::Directory(DirectoryRow {
            kind: EntityKind::Queue | EntityKind::Topic, ..
        }) = row
        {
            count += 1;
        }
        ControlFlow::Continue(())
    });
    count
}

/// NS-6: deletes all that is in a namespace that is to go, and then that. Whoever finds it unfinished goes on.
async fn finish_deletion(router: &Router, row: &NamespaceRow, deadline: Instant) -> Result<()> {
    let refused = |refusal: Refusal| Error::new(refusal, "");
    let prefix = Namespace::named(&row.name).map_err(refused)?.prefix();
    for kind in [EntityKind::Queue, EntityKind::Topic] {
        loop {
            let catalog = Catalog::new(router);
            let (rows, _) = catalog.names(kind, None, &prefix, PAGE, deadline).await?;
            if rows.is_empty() {
                break;
            }
            let deleted = rows.into_iter().map(|row| delete_entity(router, row, deadline));
            let mut deleted = stream::iter(deleted).buffer_unordered(AT_ONCE_MAX);
            while let Some(result) = deleted.next().await {
                result?;
            }
        }
    }
    let (request, name) = (row.request, row.name.clone());
    let gone = CatalogCommand::NamespaceDeleted { request, name };
    Catalog::new(router).propose(gone, "", deadline).await.map(drop)
}

async fn delete_entity(router: &Router, row: DirectoryRow, deadline: Instant) -> Result<()> {
    let delete = CatalogCommand::Delete { name: row.name.clone() };
    match Catalog::new(router).propose(delete, &row.name, deadline).await {
        Ok(Some((row, _))) => Intents::new(router).finish_deletion(&row, deadline).await,
        Ok(None) => Ok(()),
        Err(error) if matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The last use of any entity of a namespace, by what their groups know, and as IDLE-8 has it.
async fn last_use(router: &Router, namespace: &Namespace, now: Timestamp) -> Result<Timestamp> {
    let entities = Entities::new(router, namespace);
    let mut last = Timestamp::default();
    for kind in [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription] {
        let mut after = None;
        loop {
            let page = entities.list(kind, after.as_deref(), "", PAGE).await?;
            last =
                page.queues.iter().map(|it| last_use_of(&it.info, now)).fold(last, Timestamp::max);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(last)
}

fn last_use_of(info: &EntityInfo, now: Timestamp) -> Timestamp {
    match info.counts.scheduled {
        0 => info.last_use,
        _ => now,
    }
}

/// Goes on with the deletions of namespaces that stand; whether there were any.
pub(crate) async fn finish_deletions(router: &Arc<Router>) -> bool {
    let standing = Namespaces::new(router).list().into_iter().filter(|info| !info.row.is_ready());
    let standing: Vec<NamespaceInfo> = standing.collect();
    for NamespaceInfo { row, .. } in &standing {
        match finish_deletion(router, row, router.deadline()).await {
            Ok(()) => tracing::info!(namespace = row.name, "namespace deleted"),
            Err(error) => {
                tracing::warn!(%error, namespace = row.name, "cannot delete all of a namespace yet")
            }
        }
    }
    !standing.is_empty()
}

/// Has all nodes say whether they use it, unless its entities know of a use that none of them told of: a scheduled
/// message was due (IDLE-8). Whether they were asked.
pub(crate) async fn ask_for_users(
    router: &Router,
    name: &str,
    row: NamespaceIdleRow,
    now: Timestamp,
) -> Result<bool> {
    let namespace = Namespace::named(name).map_err(|refusal| Error::new(refusal, ""))?;
    let (request, deadline) = (row.request, router.deadline());
    let until = last_use(router, &namespace, now).await?;
    let name = name.to_owned();
    let command = match until > row.used_until {
        true => CatalogCommand::UseNamespace { request, name, until },
        false => CatalogCommand::SealNamespace { request, name },
    };
    let is_used = matches!(command, CatalogCommand::UseNamespace { .. });
    let asked = Catalog::new(router).ask(command, "", deadline).await?;
    Ok(asked == Outcome::Done && !is_used)
}

/// NS-10: deletes it, if nobody said that he uses it since all were asked.
pub(crate) async fn delete_idle(router: &Router, name: &str, row: NamespaceIdleRow) -> Result<()> {
    let deadline = router.deadline();
    let (request, name) = (row.request, name.to_owned());
    let delete = CatalogCommand::DeleteIdleNamespace { request, name };
    let Outcome::Catalog(CatalogOutcome::Namespace(row)) =
        Catalog::new(router).ask(delete, "", deadline).await?
    else {
        return Ok(()); // Somebody uses it.
    };
    let NamespaceRow { name, .. } = &row;
    let text = format!("namespace '{name}' is deleted: nobody used it for as long as it says");
    tracing::info!(namespace = %name, reason = "idle", "namespace deleted");
    router.config.events.tell("namespace.delete", name, text, String::new());
    finish_deletion(router, &row, deadline).await
}
