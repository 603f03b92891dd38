//! Keys that somebody was let in by, looked up again and again: who was let in learns of a change within
//! a second, on every node.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use auth::{Access, Grant, Key, KeySet, Principal};
use domain::{GroupId, Namespace, QualifiedName};
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};

use crate::edge::broker::Broker;
use crate::edge::namespaces::access_in;

/// How often all keys in use are looked up: one read for each group that has some.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// How long a look waits for one group, which holds up no other.
const LOOK_WITHIN: Duration = Duration::from_millis(400);

/// What connections are told by. Cheap to clone; it ends with the last clone.
#[derive(Clone)]
pub struct KeyWatch {
    shared: Arc<Shared>,
    changed: watch::Receiver<u64>,
}

struct Shared {
    /// Who knows which namespaces there are; nobody in tests of this alone.
    broker: Option<Broker>,
    /// Of the configuration.
    access: Access,
    /// Of namespaces that somebody has asked for.
    namespaces: Mutex<HashMap<Namespace, NamespaceAccess>>,
    in_use: Mutex<HashMap<QualifiedName, Weak<EntityKeys>>>,
    /// A grant is younger than what was seen: it is to be asked about again after the next look.
    is_undecided: AtomicBool,
}

/// The keys of an entity's own rules, as they were seen last; looked up as long as somebody holds this.
pub struct EntityKeys {
    entity: QualifiedName,
    /// `None`: not looked up yet.
    seen: Mutex<Option<Seen>>,
}

/// What a look has found.
struct Seen {
    keys: Vec<Key>,
    /// When the look began: of a grant that was given later it says nothing.
    since: Instant,
}

/// What the configuration says, and whom it names.
#[derive(PartialEq)]
struct NodeKeys {
    keys: Arc<[Key]>,
    of_issuers: Vec<Arc<KeySet>>,
}

/// Who is let do what in a namespace.
struct NamespaceAccess {
    access: Access,
    /// Its keys when connections were last told of a change.
    told: Arc<[Key]>,
}

fn keys_of(access: &Access) -> Arc<[Key]> {
    match access {
        Access::Anyone => Arc::default(),
        Access::Keys(ring) => ring.current(),
    }
}

impl KeyWatch {
    /// Looks from now on, on the runtime that this is called on.
    pub fn start(broker: Broker, access: Access) -> KeyWatch {
        let (told, changed) = watch::channel(0);
        let (in_use, is_undecided) = (Mutex::default(), AtomicBool::new(false));
        let (namespaces, known) = (Mutex::default(), Some(broker.clone()));
        let shared = Arc::new(Shared { broker: known, access, namespaces, in_use, is_undecided });
        let watched = Arc::downgrade(&shared);
        tokio::spawn(async move {
            let mut looks = tokio::time::interval(LOOK_EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut of_nodes = watched.upgrade().and_then(|shared| shared.of_nodes());
            loop {
                looks.tick().await;
                let Some(shared) = watched.upgrade() else { return };
                let now = shared.of_nodes();
                let nodes_differ = now != of_nodes;
                of_nodes = now;
                if nodes_differ {
                    // Not held up by who has to be asked for the others.
                    told.send_modify(|times| *times += 1);
                }
                let was_undecided = shared.is_undecided.swap(false, Ordering::Relaxed);
                let of_namespaces_differ = shared.refresh(&broker);
                if shared.look(&broker).await || was_undecided || of_namespaces_differ {
                    told.send_modify(|times| *times += 1);
                }
            }
        });
        KeyWatch { shared, changed }
    }

    /// Who is let do what in a namespace (NS-7, NS-8): one for all who ask, and by its keys as they are.
    pub fn access(&self, namespace: &Namespace) -> Access {
        let Shared { broker, access, .. } = &*self.shared;
        let Some(broker) = broker.as_ref().filter(|_| !access.is_anyone()) else {
            return access.clone();
        };
        let mut namespaces = self.shared.namespaces();
        let known = namespaces.entry(namespace.clone()).or_insert_with(|| {
            let access = access_in(broker.namespaces(), namespace, access);
            let told = keys_of(&access);
            NamespaceAccess { access, told }
        });
        // A change counts at once where this node has heard of it.
        self.shared.take_keys(broker, namespace, &known.access);
        known.access.clone()
    }

    /// Has the keys of an entity looked up as long as what is returned lives. Its name is in lower case.
    pub fn keep(&self, entity: &QualifiedName) -> Arc<EntityKeys> {
        let mut in_use = self.shared.in_use();
        if let Some(kept) = in_use.get(entity).and_then(Weak::upgrade) {
            return kept;
        }
        let kept = Arc::new(EntityKeys { entity: entity.clone(), seen: Mutex::default() });
        in_use.insert(entity.clone(), Arc::downgrade(&kept));
        kept
    }

    /// Resolves after a change of any key in use, since this clone last saw one.
    pub async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            // Nobody looks any more: the node ends.
            std::future::pending().await
        }
    }

    /// What a grant by `access` that was given at `given_at` is good for by now; `None`: its key is gone. While nobody
    /// knows, it stays, and there is a change to be told of once somebody does.
    pub fn renewed(
        &self,
        access: &Access,
        grant: &Grant,
        given_at: Instant,
        kept: &[Arc<EntityKeys>],
    ) -> Option<Grant> {
        let entity = match &grant.principal {
            Principal::Rule { entity, .. } => entity,
            Principal::Anyone
            | Principal::Key { .. }
            | Principal::NamespaceRule { .. }
            | Principal::Certificate { .. }
            | Principal::WebToken { .. }
            | Principal::JoinToken { .. } => {
                return access.renewed(grant, &[]);
            }
        };
        let kept = kept.iter().find(|kept| *kept.entity.as_str() == **entity);
        let seen = kept.map(|kept| kept.seen());
        match seen.as_ref().and_then(|seen| seen.as_ref()) {
            Some(Seen { keys, since }) if *since > given_at => access.renewed(grant, keys),
            // By keys of before, one that came since would be none.
            _ => {
                self.shared.is_undecided.store(true, Ordering::Relaxed);
                Some(grant.clone())
            }
        }
    }
}

impl EntityKeys {
    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether that is another pair of keys than was seen before.
    fn see(&self, keys: Vec<Key>, since: Instant) -> bool {
        let mut seen = self.seen();
        let differs = seen.as_ref().is_none_or(|seen| seen.keys != keys);
        *seen = Some(Seen { keys, since });
        differs
    }
}

impl Shared {
    fn namespaces(&self) -> MutexGuard<'_, HashMap<Namespace, NamespaceAccess>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_use(&self) -> MutexGuard<'_, HashMap<QualifiedName, Weak<EntityKeys>>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What proofs of all namespaces are looked at by, as it is now.
    fn of_nodes(&self) -> Option<NodeKeys> {
        match &self.access {
            Access::Anyone => None,
            Access::Keys(ring) => {
                Some(NodeKeys { keys: ring.current(), of_issuers: ring.issuers().keys() })
            }
        }
    }

    /// Takes the keys of namespaces as they are now; whether any is another than before.
    fn refresh(&self, broker: &Broker) -> bool {
        let mut differ = false;
        self.namespaces().retain(|namespace, known| {
            self.take_keys(broker, namespace, &known.access);
            let keys = keys_of(&known.access);
            differ |= *keys != *known.told;
            known.told = keys;
            // Who has the keys of one that is gone keeps what is left of them.
            namespace.is_default() || broker.namespaces().is_known(namespace)
        });
        differ
    }

    fn take_keys(&self, broker: &Broker, namespace: &Namespace, access: &Access) {
        let (Access::Keys(of_nodes), Access::Keys(ring)) = (&self.access, access) else { return };
        if namespace.is_default() {
            return; // They are the configuration's own.
        }
        let keys = broker.namespaces().keys(namespace, of_nodes);
        if *ring.current() != *keys {
            ring.replace(keys);
        }
    }

    /// Whether any key in use has changed.
    async fn look(&self, broker: &Broker) -> bool {
        let kept: Vec<Arc<EntityKeys>> = {
            let mut in_use = self.in_use();
            in_use.retain(|_, kept| kept.strong_count() > 0);
            in_use.values().filter_map(Weak::upgrade).collect()
        };
        let mut by_group: BTreeMap<Option<GroupId>, Vec<Arc<EntityKeys>>> = BTreeMap::new();
        for kept in kept {
            by_group
                .entry(broker.entities().group_known_here(&kept.entity))
                .or_default()
                .push(kept);
        }
        let since = Instant::now();
        let looked = by_group.into_iter().map(|(group, kept)| async move {
            let look = find(broker, group, &kept);
            // A group that says nothing now is asked again with the next look.
            let Ok(Some(found)) = timeout(LOOK_WITHIN, look).await else { return false };
            let see = |(kept, keys): (&Arc<EntityKeys>, _)| kept.see(keys, since);
            kept.iter().zip(found).map(see).fold(false, |changed, differs| changed | differs)
        });
        join_all(looked).await.contains(&true)
    }
}

/// The keys of each of these; `None`: not all can be told now.
async fn find(
    broker: &Broker,
    group: Option<GroupId>,
    kept: &[Arc<EntityKeys>],
) -> Option<Vec<Vec<Key>>> {
    let names: Vec<&QualifiedName> = kept.iter().map(|kept| &kept.entity).collect();
    let found = match group {
        None => vec![None; names.len()],
        Some(group) => broker.entities().keys_within(group, &names).await.ok()?,
    };
    let mut keys = Vec::with_capacity(found.len());
    for (found, name) in found.into_iter().zip(names) {
        keys.push(match found {
            Some(found) => found,
            // This node may be behind: who leads the catalog knows whether it is there.
            None => broker.entities().keys_of_named(name).await.ok()?,
        });
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use auth::{Reach, Right, Rights};

    use super::*;

    /// Each row: when a look began that found these keys, in seconds from when the grant was given; and
    /// whether the grant is good, and is to be asked about again.
    #[test]
    fn ent_12_only_a_look_that_began_later_says_that_a_key_is_gone() {
        let key = |value: &str| Key {
            name: "worker".to_owned(),
            rights: Rights::default().with(Right::Listen),
            scope: "orders".to_owned(),
            reach: Reach::Entity,
            ..Key::root(value)
        };
        let given_at = Instant::now() + Duration::from_secs(60);
        let grant = Grant::of_key(&[key("new")], "worker", "new").expect("its key");
        for (look, found, good, undecided) in [
            (None, vec![], true, true),
            (Some(-1), vec![key("old")], true, true),
            (Some(-1), vec![], true, true),
            (Some(0), vec![key("old")], true, true),
            (Some(1), vec![key("old")], false, false),
            (Some(1), vec![], false, false),
            (Some(1), vec![key("new")], true, false),
            (Some(1), vec![key("newer"), key("new")], true, false),
        ] {
            let shared = Arc::new(Shared {
                broker: None,
                access: Access::keys([Key::root("secret")]),
                namespaces: Mutex::default(),
                in_use: Mutex::default(),
                is_undecided: AtomicBool::new(false),
            });
            let watch = KeyWatch { shared, changed: watch::channel(0).1 };
            let kept = watch.keep(&QualifiedName::known("orders"));
            let access = watch.access(&Namespace::DEFAULT);
            if let Some(seconds) = look {
                let by = Duration::from_secs(i32::unsigned_abs(seconds).into());
                let since = if seconds < 0 { given_at - by } else { given_at + by };
                assert!(kept.see(found.clone(), since), "the first says something new");
                assert!(!kept.see(found.clone(), since));
            }
            let renewed = watch.renewed(&access, &grant, given_at, &[kept]);
            let told = (renewed.is_some(), watch.shared.is_undecided.load(Ordering::Relaxed));
            assert_eq!(told, (good, undecided), "{look:?} {found:?}");
        }
    }
}
