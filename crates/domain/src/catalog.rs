//! The catalog machine: the cluster, its nodes and groups, and the entity directory. Creating or
//! deleting an entity spans catalog and data group: the catalog records intent, the data group
//! acts, the catalog confirms, and a reconciler finishes what a crash left.

use thiserror::Error;

use crate::{
    AuthorizationRule, Destination, DocumentRow, DocumentText, EntityId, EntityKind, GroupId,
    NamespaceRow, NewNamespace, NewRule, Profile, QueueProperties, Span, SubscriptionProperties,
    Timestamp, TopicProperties,
};

/// What every cluster can do since it was founded.
pub(crate) const FEATURE_LEVEL_FOUNDED: u32 = 1;
/// Up to which this binary understands commands that not all versions know. Nobody proposes one of a level that
/// a node of the cluster does not know: it could not read its log. Each level adds to the one before.
pub const FEATURE_LEVEL_KNOWN: u32 = FEATURE_LEVEL_PROFILES;
/// From which on there are join tokens.
pub const FEATURE_LEVEL_JOIN_TOKENS: u32 = 2;
/// From which on the level rises by itself to what all nodes know ([`CatalogCommand::RaiseFeatureLevel`]).
pub const FEATURE_LEVEL_RAISED: u32 = 3;
/// From which on nodes can be in maintenance.
pub const FEATURE_LEVEL_MAINTENANCE: u32 = 4;
/// From which on the matching of an entry is limited ([`Command::LimitMatching`](crate::Command::LimitMatching)).
pub const FEATURE_LEVEL_MATCH_BUDGET: u32 = 5;
/// From which on data groups can be added ([`CatalogCommand::AddGroups`]).
pub const FEATURE_LEVEL_MORE_GROUPS: u32 = 6;
/// From which on the cluster can be backed up, and restored ([`Command::Cut`](crate::Command::Cut)).
pub const FEATURE_LEVEL_BACKUP: u32 = 7;
/// From which on entities move between groups ([`Command::Relocate`](crate::Command::Relocate)).
pub const FEATURE_LEVEL_RELOCATION: u32 = 8;
/// From which on logs are applied by the rules of 0.2, as soon as each says so
/// ([`Command::ReachLevel`](crate::Command::ReachLevel)), and may hold what 0.1 could not read.
pub const FEATURE_LEVEL_RULES_OF_0_2: u32 = 9;
/// From which on clients can be made to meet faults ([`CatalogCommand::PutFaultRule`]).
pub const FEATURE_LEVEL_FAULT_RULES: u32 = 10;
/// From which on a group knows when an entity came from another one ([`RelocationState::ArrivedAt`](crate::RelocationState)).
pub const FEATURE_LEVEL_ARRIVAL_TIMES: u32 = 11;
/// From which on the catalog knows creations whose entity is gone (ENT-2).
pub const FEATURE_LEVEL_ENDED_CREATIONS: u32 = 12;
/// From which on there are namespaces beside the default one, and names in them ([`QualifiedName`](crate::QualifiedName)).
pub const FEATURE_LEVEL_NAMESPACES: u32 = 13;
/// From which on namespaces have profiles (QUOTA-0), and may be deleted once they are idle (NS-9).
pub const FEATURE_LEVEL_PROFILES: u32 = 14;
/// From which on management interfaces keep documents ([`CatalogCommand::PutDocument`]).
pub const FEATURE_LEVEL_DOCUMENTS: u32 = 14;

/// Creations whose entity is gone that are remembered at the most; more in [`PRODUCER_KEPT`](crate::PRODUCER_KEPT) push the
/// oldest out.
pub const ENDED_CREATIONS_MAX: usize = 1 << 17;

/// Of a cluster, at a time.
pub const FAULT_RULES_MAX: usize = 100;
pub const FAULT_RULE_NAME_BYTES_MAX: usize = 100;
/// What one says, in bytes.
pub const FAULT_RULE_BYTES_MAX: usize = 8 * 1024;

/// A name in the directory.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryRow {
    pub entity: EntityId,
    pub group: GroupId,
    /// As given at creation (ENT-1). Of a subscription, its path: the row stands among its topic's,
    /// and is found like any other.
    pub name: String,
    pub kind: EntityKind,
    /// Drawn by who asked for it: a repeat of the request is known by it (SEND-8).
    pub request: u64,
    pub state: DirectoryState,
}

impl DirectoryRow {
    /// Where messages forwarded to this name go (FWD-2); `None` if they cannot.
    pub fn destination(&self) -> Option<Destination> {
        let takes = self.kind != EntityKind::Subscription && self.is_there();
        takes.then_some(Destination { entity: self.entity, group: self.group })
    }

    /// Whether clients may use it.
    pub fn is_there(&self) -> bool {
        matches!(self.state, DirectoryState::Ready | DirectoryState::Sealing { .. })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum DirectoryState {
    /// The data group has not confirmed; what it shall create is kept for the reconciler.
    Creating {
        what: Creation,
    },
    Ready,
    /// Ready, and refuses nothing: the data group was or will be asked to delete it, unless it was
    /// used since (IDLE-15).
    Sealing {
        idle_since: Timestamp,
    },
    /// Refuses everything; the name is free once the data group has deleted.
    Deleting,
}

/// What is to be created.
#[derive(Clone, Debug, PartialEq)]
pub enum Creation {
    Queue { properties: Box<QueueProperties> },
    Topic { properties: Box<TopicProperties> },
    Subscription { topic: EntityId, properties: Box<SubscriptionProperties>, rule: Box<NewRule> },
}

impl Creation {
    pub fn kind(&self) -> EntityKind {
        match self {
            Creation::Queue { .. } => EntityKind::Queue,
            Creation::Topic { .. } => EntityKind::Topic,
            Creation::Subscription { .. } => EntityKind::Subscription,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// `host:port` for peers, native API, HTTP.
    pub peer_address: String,
    pub grpc_address: String,
    pub http_address: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRow {
    /// Node ids. Where the replicas shall be: the group follows, and may have been elsewhere before.
    pub replicas: Vec<u64>,
}

/// What a node of the cluster is not: one without such a row serves and holds its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Its replicas and leaderships go to others; it serves clients, and may be taken back.
    Draining,
    /// It leads nothing, keeps its replicas and serves clients, until it is said to be over.
    Maintenance,
    /// It is no node of the cluster any more, and its number is never given again: what it once
    /// said under it stays said.
    Removed,
}

/// A join token, by its id; who has it knows the secret, and the cluster a hash of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinTokenRow {
    pub secret_hash: [u8; 32],
    pub expires_at: Timestamp,
    /// The only node it admits, if it is for one.
    pub node: Option<u64>,
    /// Whom it has admitted: it admits nobody else.
    pub used: Option<TokenUse>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUse {
    pub node: u64,
    pub at: Timestamp,
    /// Drawn by the node for its question: a repeat is known by it.
    pub request: u64,
}

/// A fault that clients are to meet (FAULT-1), by the name it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRuleRow {
    pub name: String,
    /// Where, when and what, as the edges read it: the machine keeps it only.
    pub text: String,
    pub added_at: Timestamp,
    /// `None`: when it is removed.
    pub ends_at: Option<Timestamp>,
}

/// A creation whose entity is gone (ENT-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedCreationRow {
    /// As of [`DirectoryRow::request`].
    pub request: u64,
    pub ended_at: Timestamp,
}

/// Why a join token admits nobody. The text is one line that says what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JoinFault {
    /// No token has this id and secret.
    #[error(
        "the join token is not known: it was revoked, or ended more than a day ago, or is another cluster's; \
         make one with 'mayfly cluster token'"
    )]
    Unknown,
    #[error(
        "the join token has admitted node {node} already, and admits one node only; make another with \
         'mayfly cluster token'"
    )]
    Used { node: u64 },
    #[error(
        "the join token ended {} s ago by the cluster's clock; make another with 'mayfly cluster token', \
         with a longer --expires", .ago.0.div_ceil(1000)
    )]
    Expired { ago: Span },
    /// `asked`: 0 of a node that names none.
    #[error("{}", of_another_node(*.of, *.asked))]
    OtherNode { of: u64, asked: u64 },
}

fn of_another_node(of: u64, asked: u64) -> String {
    match asked {
        0 => format!(
            "the join token is for node {of}, and this node says no number; start it with --node {of}, or \
             with the certificate of node {of}"
        ),
        asked => format!(
            "the join token is for node {of}, and this is node {asked}; make one with 'mayfly cluster token \
             --node {asked}'"
        ),
    }
}

/// Asked of the catalog group.
#[derive(Clone, Debug, PartialEq)]
pub enum CatalogCommand {
    /// Once, by the node that forms the cluster; a repeat is `Done`.
    Found { cluster_id: u128, data_groups: u16, replication_factor: u8, nodes: Vec<(u64, NodeRow)> },
    /// Records the intent to create on the group with the fewest entities, ENT-2. A name in
    /// creation answers with what is recorded, so that the creation can be finished; a name that
    /// the same request created answers with it as the first time (SEND-8).
    Create { request: u64, name: String, properties: Box<QueueProperties> },
    /// As `Create`: queues and topics share their names (ENT-2).
    CreateTopic { request: u64, name: String, properties: Box<TopicProperties> },
    /// As `Create`, on the group of the topic, at most `SUBSCRIPTIONS_MAX` of one (QUOTA-7).
    CreateSubscription {
        request: u64,
        topic: String,
        name: String,
        properties: Box<SubscriptionProperties>,
        rule: Box<NewRule>,
    },
    /// The data group has created.
    Created { name: String, entity: EntityId },
    /// The data group refused for good to create: the intent becomes one to delete. What was created
    /// nevertheless is told as it stands.
    Withdraw { name: String, entity: EntityId },
    /// Records the intent to delete.
    Delete { name: String },
    /// The data group has deleted: the name is free (IDLE-17), and with a topic's those of its
    /// subscriptions (ENT-7).
    Deleted { name: String, entity: EntityId },
    /// Records the intent to delete what is idle. What is in another state is told as it stands.
    Seal { name: String, entity: EntityId, idle_since: Timestamp },
    /// The data group has spared it: withdraws the intent, and no later one.
    Spare { name: String, entity: EntityId, idle_since: Timestamp },
    /// A node's addresses changed.
    SetNode { node: u64, row: NodeRow },
    /// A node joins: it holds the catalog from now on, and gets its share of the rest. A repeat is
    /// `Done`.
    AddNode { node: u64, row: NodeRow },
    /// Has a node's replicas moved to others, or, with `cancel`, lets it have its share again. A
    /// repeat is `Done`.
    Drain { node: u64, cancel: bool },
    /// Has a node lead nothing while it keeps its replicas, or no longer. A repeat is `Done`.
    SetMaintenance { node: u64, on: bool },
    /// Takes a node out. One that holds replicas must be drained first; with `dead` it is gone for
    /// good, and they are replaced on others. A repeat is `Done`.
    Remove { node: u64, dead: bool },
    /// Has a data group's replica live on another node from now on. `moves` is how often the group's
    /// replicas were moved before: who decided on an older view is refused.
    MoveReplica { group: GroupId, from: u64, to: u64, moves: u64 },
    /// Has a join token be good for so long from now on, for one node or, with `None`, for any. A repeat
    /// answers the same.
    CreateJoinToken { id: u64, secret_hash: [u8; 32], lasts: Span, node: Option<u64> },
    /// A join token admits nobody any more. A repeat is `Done`.
    RevokeJoinToken { id: u64 },
    /// As `AddNode`, of a node that has a join token, which is used up by it; under the next free number if
    /// `node` is 0. A repeat, known by its request, answers the same.
    Join { token: u64, secret_hash: [u8; 32], request: u64, node: u64, row: Box<NodeRow> },
    /// From now on there shall be so many data groups, never fewer than before. Entities are put on the new ones
    /// once they are open. `directories`: nodes that may found them, each with the id of its data directory. A
    /// repeat is `Done`.
    AddGroups { data_groups: u16, directories: Vec<(u64, u32)> },
    /// The first so many data groups have had a leader each: entities may be put on them. A repeat is `Done`.
    OpenGroups { data_groups: u16 },
    /// All these nodes know this feature level. Refused if the cluster has others; a repeat is `Done`.
    RaiseFeatureLevel { level: u32, nodes: Vec<u64> },
    /// A backup is to be restored into this cluster, which has no entity and never had one: from now on nothing
    /// is created in it but by that. `taken_at`: when the backup was made, by its cluster's time. A repeat is
    /// `Done`.
    BeginRestore { restore: u128, taken_at: Timestamp },
    /// Names of the backup's entities, all of which the data groups have.
    RestoreNames { restore: u128, rows: Vec<DirectoryRow> },
    /// All of the backup is there: ids of entities go on behind its own. A repeat is `Done`.
    EndRestore { restore: u128, next_entity: u64 },
    /// A queue, or a topic with its subscriptions, went from one group to another. Without effect if the name is
    /// another entity's by now, or nobody's, and for what is not on the first group any more.
    SetGroup { name: String, entity: EntityId, from: GroupId, group: GroupId },
    /// A fault that clients meet from now on, for so long or until it is removed; in the place of another of
    /// that name.
    PutFaultRule { name: String, text: String, lasts: Option<Span> },
    /// The fault of that name, or all of them, are met no more. A repeat changes nothing.
    RemoveFaultRules { name: Option<String> },
    /// There is a namespace of that name from now on. One that the same request created answers as the first time.
    CreateNamespace { request: u64, name: String, authorization_rules: Vec<AuthorizationRule> },
    /// These are the rules of a namespace, known by the request that created it. A repeat changes nothing.
    UpdateNamespace { request: u64, name: String, authorization_rules: Vec<AuthorizationRule> },
    /// A namespace, known by the request that created it, is to go: nothing is created in it any more. Refused without
    /// `force` if it has entities. A repeat answers the same.
    DeleteNamespace { request: u64, name: String, force: bool },
    /// Nothing is left in a namespace that is to go. Refused while there is something.
    NamespaceDeleted { request: u64, name: String },
    /// Namespaces of the backup that is being restored. One that is there already is left as it is.
    RestoreNamespaces { restore: u128, rows: Vec<NamespaceRow> },
    /// A namespace, known by the request that created it, is deleted once nobody has used it for so long; never with
    /// `Span::MAX`. It counts as a use.
    SetNamespaceIdle { request: u64, name: String, window: Span },
    /// A namespace is in use, and will be until then, at most `TOUCH_LASTS` ahead.
    UseNamespace { request: u64, name: String, until: Timestamp },
    /// Asks whoever uses an idle namespace to say so. `Spared` if it is not idle.
    SealNamespace { request: u64, name: String },
    /// An idle namespace is to go with all that is in it, unless somebody used it since that was asked: check and
    /// deed are one entry (IDLE-15). `Spared` if so.
    DeleteIdleNamespace { request: u64, name: String },
    /// As `CreateNamespace`, where it shall be what it could not be before there were profiles.
    CreateNamespaceOf { request: u64, new: NewNamespace },
    /// A namespace, known by the request that created it (0: the default one), shall have this profile: from now on it
    /// keeps to both. Refused if it has more entities than that takes. A repeat changes nothing.
    ChangeProfile { request: u64, name: String, profile: Profile },
    /// What was in a namespace when it was to have this profile `fits`, and so it has it; or does not, and it stays what
    /// it was. Without effect if it is not to have it any more.
    SettleProfile { request: u64, name: String, profile: Profile, fits: bool },
    /// A document of a management interface says this from now on. `is_new`: unless there is one of that name, which
    /// is then left as it is.
    PutDocument { name: String, text: DocumentText, is_new: bool },
    /// There is no document of that name from now on. A repeat changes nothing.
    RemoveDocument { name: String },
}

#[derive(Clone, Debug, PartialEq)]
pub enum CatalogOutcome {
    /// The row as it now stands. `fresh` is false where the row was there before: `Create` met an
    /// unfinished creation or deletion of that name, which the caller finishes first.
    Entry {
        row: DirectoryRow,
        fresh: bool,
    },
    JoinTokenCreated {
        expires_at: Timestamp,
    },
    /// The node's number.
    Joined {
        node: u64,
    },
    NotJoined(JoinFault),
    /// When fault rules were changed, or were found to be so already.
    FaultRulesChanged {
        at: Timestamp,
    },
    /// The row as it now stands.
    Namespace(NamespaceRow),
    /// The document as it now stands.
    Document(DocumentRow),
}
