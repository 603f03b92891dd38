//! What a node does for the cluster without being asked. What is decided is an entry of a log, so whoever
//! leads next goes on, and nobody has to remember anything.

mod added_groups;
mod fault_rules;
mod feature_level;
mod forwarder;
mod history;
mod idle_coordinator;
mod idle_namespaces;
mod leadership_balance;
mod orphaned_locks;
mod peer_watch;
mod placement;
mod reconciler;
mod relocator;
mod replica_balancer;
mod space;
mod succession;
mod timekeeper;

pub(crate) use self::fault_rules::heed_fault_rules;
pub(crate) use self::feature_level::follow_feature_level;
pub(crate) use self::forwarder::Forwarder;
pub(crate) use self::history::let_go_of_history;
pub(crate) use self::idle_coordinator::IdleCoordinator;
pub(crate) use self::idle_namespaces::IdleNamespaces;
pub(crate) use self::orphaned_locks::release_orphaned;
pub(crate) use self::peer_watch::watch_peers;
pub(crate) use self::reconciler::Reconciler;
pub(crate) use self::relocator::relocate_from;
pub(crate) use self::replica_balancer::ReplicaBalancer;
pub(crate) use self::space::Space;
pub(crate) use self::succession::Succession;
pub(crate) use self::timekeeper::Timekeeper;
