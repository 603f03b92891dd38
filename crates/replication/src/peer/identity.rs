//! Every call says who calls whom in which cluster, and is refused before its body is read when
//! that is not right here. A refusal says what to change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use tonic::metadata::{Ascii, AsciiMetadataValue, MetadataKey, MetadataMap};
use tonic::service::Interceptor;
use tonic::{Extensions, Request, Status};
use tracing::warn;

use super::processes::{Claim, Process, ProcessRegistry};
use crate::runs::Runs;
use crate::sockets::Shown;
use crate::{Proof, Run, metrics};

/// What peers say to each other, and how. Raised when an older binary could not take part; this one
/// takes part with peers from `PROTOCOL_OLDEST` on, so that nodes can be upgraded one by one.
const PROTOCOL: u32 = 1;
const PROTOCOL_OLDEST: u32 = 1;

const PROTOCOL_VERSION: &str = "mayfly-protocol";
const CLUSTER: &str = "mayfly-cluster";
const FROM: &str = "mayfly-from";
const TO: &str = "mayfly-to";
const PROCESS: &str = "mayfly-process";
const SECRET: &str = "mayfly-secret";
/// So many writes are on disk in the caller's data directory. Absent: it does not count them.
const WRITTEN: &str = "mayfly-written";
/// Which founding of the cluster the caller's data directory is of ([`store::DataDir::founding`]). Absent: it does not
/// know.
const FOUNDING: &str = "mayfly-founding";

/// In a refusal that ends the process refused, why: a status alone may be that of a stranger, such as
/// another service at a mistaken address.
pub(super) const REFUSED: &str = "mayfly-refused";
/// Another process is this node.
pub(super) const TAKEN: &str = "taken";
/// The node's data directory is an old copy.
pub(super) const OUTDATED: &str = "outdated";
/// The node is of another founding of the cluster. Both sides say so, and which is right a person knows.
pub(super) const FOUNDED_APART: &str = "founded-apart";
/// The node was removed from the cluster.
pub(super) const REMOVED: &str = "removed";

/// Distinct refusals that are logged; a port scan must not fill the log, nor memory.
const REFUSALS_MAX: usize = 256;

/// A node's data directory, as its peers hear of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// 0 where there is none.
    pub id: u32,
    /// As in [`store::LogDisk::synced_writes`].
    pub written: Arc<AtomicU64>,
    /// As in [`store::DataDir::founding`].
    pub founding: Arc<AtomicU32>,
}

/// What a node says of itself and expects of others.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub node: u64,
    process: Process,
    cluster: Vec<u8>,
    secret: Option<Vec<u8>>,
    is_by_credential: bool,
    directory: Directory,
}

impl Identity {
    pub fn new(node: u64, directory: Directory, cluster_id: &str, proof: &Proof) -> Identity {
        let secret = match proof {
            Proof::Secret(secret) => Some(hex(secret.as_bytes())),
            Proof::Nothing | Proof::Credential => None,
        };
        Identity {
            node,
            process: Process { directory_id: directory.id, run: rand::random() },
            cluster: hex(cluster_id.as_bytes()),
            secret,
            is_by_credential: *proof == Proof::Credential,
            directory,
        }
    }
}

impl Identity {
    pub fn run(&self) -> Run {
        self.process.short()
    }
}

/// Any text as header characters: names and secrets may hold what a header may not.
fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// The caller, known to handlers as an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub node: u64,
    pub run: Run,
}

/// Signs calls to one peer.
#[derive(Clone, Debug)]
pub(crate) struct Sign {
    pairs: Arc<[(&'static str, AsciiMetadataValue)]>,
    directory: Directory,
}

impl Sign {
    pub fn new(identity: &Identity, to: u64) -> Sign {
        let text = |bytes: &[u8]| {
            AsciiMetadataValue::try_from(bytes).unwrap_or_else(|_| AsciiMetadataValue::from(0))
        };
        let mut pairs = vec![
            (PROTOCOL_VERSION, AsciiMetadataValue::from(PROTOCOL)),
            (CLUSTER, text(&identity.cluster)),
            (FROM, AsciiMetadataValue::from(identity.node)),
            (TO, AsciiMetadataValue::from(to)),
            (PROCESS, text(identity.process.to_string().as_bytes())),
        ];
        if let Some(secret) = &identity.secret {
            let mut secret = text(secret);
            secret.set_sensitive(true);
            pairs.push((SECRET, secret));
        }
        Sign { pairs: pairs.into(), directory: identity.directory.clone() }
    }
}

impl Interceptor for Sign {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (key, value) in self.pairs.iter() {
            request.metadata_mut().insert(MetadataKey::<Ascii>::from_static(key), value.clone());
        }
        let Directory { written, founding, .. } = &self.directory;
        let (written, founding) =
            (written.load(Ordering::Relaxed), founding.load(Ordering::Relaxed));
        for (key, value) in [(WRITTEN, written), (FOUNDING, founding.into())] {
            if value > 0 {
                request.metadata_mut().insert(key, AsciiMetadataValue::from(value));
            }
        }
        Ok(request)
    }
}

/// What is wrong with a call. The order is that of the checks: who has no proof, or not of the node it
/// calls itself, is told nothing else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Secret,
    /// What the connection was opened with is no node's, or another's; in words.
    Credential(String),
    /// The version it speaks; 0: it does not say.
    Protocol(u32),
    Cluster,
    /// The node it is for, and the one it met.
    Addressee(Option<u64>, u64),
    /// The caller's node, which is this one, or none.
    Caller(Option<u64>),
    /// Another process speaks as the caller's node.
    Taken(u64),
    /// Another process did a moment ago.
    Doubtful(u64),
    /// The caller's directory holds less than was once in it.
    Outdated(u64),
    /// The caller's directory is of another founding of the cluster.
    Founding(u64),
    /// The caller's node is no part of the cluster any more.
    Removed(u64),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Secret => f.write_str(
                "the cluster secret is missing or differs; give every node of the cluster the same \
                 security.secret",
            ),
            Reason::Credential(why) => f.write_str(why),
            Reason::Protocol(theirs) if *theirs < PROTOCOL_OLDEST => write!(
                f,
                "the caller speaks version {theirs} of the peer protocol, this node {PROTOCOL_OLDEST} \
                 to {PROTOCOL}; install a newer mayfly at the caller"
            ),
            Reason::Protocol(theirs) => write!(
                f,
                "the caller speaks version {theirs} of the peer protocol, this node {PROTOCOL_OLDEST} \
                 to {PROTOCOL}; install a newer mayfly at this node"
            ),
            Reason::Cluster => f.write_str(
                "the cluster id differs: this node belongs to another cluster; correct cluster.id, or \
                 the peer address that led here",
            ),
            Reason::Addressee(Some(wanted), here) => write!(
                f,
                "the call is for node {wanted}, and this is node {here}; correct the peer addresses of \
                 both in cluster.node"
            ),
            Reason::Addressee(None, here) => {
                write!(f, "the call does not say which node it is for, and this is node {here}")
            }
            Reason::Caller(Some(node)) => write!(
                f,
                "the caller calls itself node {node}, as this node does; give one of them another \
                 node.id"
            ),
            Reason::Caller(None) => f.write_str("the caller does not say which process of which node it is"),
            Reason::Taken(node) => write!(
                f,
                "another process runs as node {node} already; end it, or give this one another node.id \
                 and data directory"
            ),
            Reason::Outdated(node) => write!(
                f,
                "the data directory of node {node} is an old copy: it holds less than was written to it, \
                 which votes and acknowledgements were given for"
            ),
            Reason::Founding(node) => write!(
                f,
                "the data directory of node {node} is of a cluster of this id that was founded another time; \
                 give the node whose data are from before an empty one"
            ),
            Reason::Removed(node) => write!(f, "node {node} was removed from the cluster"),
            Reason::Doubtful(node) => {
                write!(f, "another process ran as node {node} a moment ago; ask again")
            }
        }
    }
}

/// To which node, as far as it is known, and why.
type Refused = (Option<u64>, Reason);

/// Checks calls from peers.
#[derive(Clone)]
pub(crate) struct Check {
    identity: Arc<Identity>,
    registry: Arc<Mutex<ProcessRegistry>>,
    runs: Arc<Runs>,
    /// What was refused to whom: each is said once.
    refusals: Arc<Mutex<BTreeSet<Refused>>>,
    addresses: PeerAddresses,
    removed: Removed,
}

/// Where each node's peer port is reached, as `host:port`.
pub(crate) type PeerAddresses = Arc<RwLock<BTreeMap<u64, String>>>;

/// Nodes that are no part of the cluster any more.
pub(crate) type Removed = Arc<RwLock<BTreeSet<u64>>>;

impl Check {
    /// `runs` is told who is heard.
    pub fn new(
        identity: Identity,
        addresses: PeerAddresses,
        removed: Removed,
        runs: Arc<Runs>,
        registry: Arc<Mutex<ProcessRegistry>>,
    ) -> Check {
        let (identity, refusals) = (Arc::new(identity), Arc::default());
        Check { identity, registry, runs, refusals, addresses, removed }
    }

    /// Whether the connection was opened by the node that the call is said to come from.
    fn check_credential(
        &self,
        metadata: &MetadataMap,
        extensions: &Extensions,
    ) -> Result<(), Reason> {
        let refused = |why: &str| Err(Reason::Credential(why.to_owned()));
        let Some(Shown(Some(credential))) = extensions.get() else {
            return refused(
                "the connection came without a certificate; set [tls.peer] at the caller",
            );
        };
        let Some(node) = read(metadata, FROM) else {
            return refused("the call does not say which node it comes from");
        };
        let address = self.addresses.read().get(&node).cloned();
        credential.vouches_for(node, address.as_deref()).map_err(Reason::Credential)
    }

    /// The caller, or what is wrong.
    fn caller(&self, metadata: &MetadataMap, extensions: &Extensions) -> Result<Caller, Reason> {
        let bytes = |key| metadata.get(key).map(|value| value.as_bytes());
        let here = &self.identity;
        let secret = here.secret.as_deref().unwrap_or_default();
        if here.is_by_credential {
            self.check_credential(metadata, extensions)?;
        } else if !equal(secret, bytes(SECRET).unwrap_or_default()) {
            return Err(Reason::Secret);
        }
        let protocol = read(metadata, PROTOCOL_VERSION).unwrap_or(0);
        if !(PROTOCOL_OLDEST..=PROTOCOL).contains(&protocol) {
            return Err(Reason::Protocol(protocol));
        }
        if bytes(CLUSTER) != Some(&here.cluster) {
            return Err(Reason::Cluster);
        }
        let to = read(metadata, TO);
        if to != Some(here.node) {
            return Err(Reason::Addressee(to, here.node));
        }
        let caller = read(metadata, FROM).zip(read::<Process>(metadata, PROCESS));
        let (node, process) = caller.ok_or(Reason::Caller(None))?;
        if node == here.node {
            return Err(Reason::Caller(Some(node)));
        }
        if self.removed.read().contains(&node) {
            return Err(Reason::Removed(node));
        }
        let ours = here.directory.founding.load(Ordering::Relaxed);
        let theirs = read(metadata, FOUNDING).unwrap_or(0);
        if ours > 0 && theirs > 0 && ours != theirs {
            return Err(Reason::Founding(node));
        }
        let (claim, current) = {
            let mut registry = self.registry.lock();
            let writes = read(metadata, WRITTEN);
            (registry.claim(node, process, writes, Instant::now()), registry.current(node))
        };
        if current == Some(process) {
            self.runs.hear(node, process.short());
        }
        match claim {
            Claim::Granted => Ok(Caller { node, run: process.short() }),
            Claim::Doubtful => Err(Reason::Doubtful(node)),
            Claim::Taken => Err(Reason::Taken(node)),
            Claim::Outdated => Err(Reason::Outdated(node)),
        }
    }

    /// Logs a refusal the first time: a misconfigured peer tries again several times a second.
    fn refuse(&self, from: Option<u64>, reason: Reason) -> Status {
        if let Reason::Doubtful(_) = reason {
            return Status::unavailable(reason.to_string());
        }
        metrics::refused();
        let mut seen = self.refusals.lock();
        if seen.len() < REFUSALS_MAX && seen.insert((from, reason.clone())) {
            warn!(from, %reason, "refused a peer; further refusals of this kind are not logged");
        }
        let mut status = Status::permission_denied(reason.to_string());
        let ends = match reason {
            Reason::Taken(_) => Some(TAKEN),
            Reason::Outdated(_) => Some(OUTDATED),
            Reason::Founding(_) => Some(FOUNDED_APART),
            Reason::Removed(_) => Some(REMOVED),
            _ => None,
        };
        if let Some(why) = ends {
            status.metadata_mut().insert(REFUSED, AsciiMetadataValue::from_static(why));
        }
        status
    }
}

fn read<T: FromStr>(metadata: &MetadataMap, key: &'static str) -> Option<T> {
    metadata.get(key)?.to_str().ok()?.parse().ok()
}

impl Interceptor for Check {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        match self.caller(request.metadata(), request.extensions()) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Ok(request)
            }
            Err(reason) => Err(self.refuse(read(request.metadata(), FROM), reason)),
        }
    }
}

/// Compares in a time that does not tell where two secrets first differ.
fn equal(ours: &[u8], theirs: &[u8]) -> bool {
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::Credential;

    fn answer(caller: Identity, to: u64, here: Identity) -> Result<u64, String> {
        let signed = Sign::new(&caller, to).call(Request::new(())).expect("signed");
        let checked = check(here, PeerAddresses::default(), Removed::default())
            .call(signed)
            .map_err(|status| status.message().to_owned())?;
        Ok(checked.extensions().get::<Caller>().expect("a caller").node)
    }

    fn directory(id: u32) -> Directory {
        Directory { id, ..Directory::default() }
    }

    fn check(here: Identity, addresses: PeerAddresses, removed: Removed) -> Check {
        let runs = Arc::new(Runs::new(here.node, here.run()));
        Check::new(here, addresses, removed, runs, Arc::default())
    }

    fn check_of(node: u64, removed: Removed) -> Check {
        check(
            Identity::new(node, directory(7), "c", &Proof::Nothing),
            PeerAddresses::default(),
            removed,
        )
    }

    /// Of node 1, or of whoever is reached at `n3:1`.
    #[derive(Debug)]
    struct Certified;

    impl Credential for Certified {
        fn vouches_for(&self, node: u64, address: Option<&str>) -> Result<(), String> {
            match node == 1 || address == Some("n3:1") {
                true => Ok(()),
                false => Err(format!("it is not node {node}'s")),
            }
        }
    }

    /// Each row: what the connection was opened with, the node that the call is said to come from, what
    /// it has for a secret, and the answer.
    #[test]
    fn a_credential_vouches_for_the_node_that_calls() {
        let addresses = BTreeMap::from([(3, "n3:1".to_owned()), (4, "n4:1".to_owned())]);
        let addresses = PeerAddresses::new(RwLock::new(addresses));
        let shown = || Some(Shown(Some(Arc::new(Certified) as Arc<dyn Credential>)));
        for (shown, node, secret, told) in [
            (shown(), 1, None, Ok(1)),
            (shown(), 3, None, Ok(3)),
            (shown(), 4, None, Err("it is not node 4's")),
            (shown(), 5, None, Err("it is not node 5's")),
            (Some(Shown(None)), 1, None, Err("came without a certificate")),
            (None, 1, None, Err("came without a certificate")),
            // A secret is no proof here, and is asked of nobody.
            (None, 1, Some("s"), Err("came without a certificate")),
            (shown(), 1, Some("s"), Ok(1)),
        ] {
            let here = Identity::new(2, directory(7), "c", &Proof::Credential);
            let proof =
                secret.map_or(Proof::Credential, |secret: &str| Proof::Secret(secret.into()));
            let caller = Identity::new(node, directory(7), "c", &proof);
            let mut request = Sign::new(&caller, 2).call(Request::new(())).expect("signed");
            assert_eq!(request.metadata().contains_key(SECRET), secret.is_some());
            if let Some(shown) = shown {
                request.extensions_mut().insert(shown);
            }
            let mut check = check(here, addresses.clone(), Removed::default());
            match (check.call(request), told) {
                (Ok(_), Ok(_)) => (),
                (Err(status), Err(word)) => {
                    assert_eq!(status.code(), Code::PermissionDenied);
                    assert!(status.message().contains(word), "{}", status.message());
                }
                (answer, _) => panic!("node {node}: {answer:?}"),
            }
        }
    }

    #[test]
    fn only_the_right_peer_of_the_right_cluster_with_the_right_secret_gets_in() {
        let node = |node, cluster, secret: Option<&str>| {
            let proof = secret.map_or(Proof::Nothing, |secret| Proof::Secret(secret.to_owned()));
            Identity::new(node, directory(7), cluster, &proof)
        };
        let here = || node(2, "c", Some("s\n\u{e9}"));
        assert_eq!(answer(node(1, "c", Some("s\n\u{e9}")), 2, here()), Ok(1));
        for (caller, to, word) in [
            (node(1, "d", Some("s\n\u{e9}")), 2, "correct cluster.id"),
            (node(1, "c", Some("t")), 2, "security.secret"),
            (node(1, "c", None), 2, "security.secret"),
            (node(1, "c", Some("s\n\u{e9}")), 3, "for node 3, and this is node 2"),
            (node(2, "c", Some("s\n\u{e9}")), 2, "calls itself node 2"),
        ] {
            let reason = answer(caller, to, here()).expect_err("refused");
            assert!(reason.contains(word), "{reason}");
        }
        assert_eq!(answer(node(1, "c", None), 2, node(2, "c", None)), Ok(1));
    }

    #[test]
    fn who_speaks_another_protocol_is_told_which_side_is_old() {
        let here = || Identity::new(2, directory(7), "c", &Proof::Nothing);
        for (version, word) in [
            (None, "newer mayfly at the caller"),
            (Some("0"), "newer mayfly at the caller"),
            (Some("garbage"), "newer mayfly at the caller"),
            (Some("2"), "newer mayfly at this node"),
        ] {
            let caller = Sign::new(&Identity::new(1, directory(7), "c", &Proof::Nothing), 2);
            let mut request = { caller }.call(Request::new(())).expect("signed");
            request.metadata_mut().remove(PROTOCOL_VERSION);
            if let Some(version) = version {
                let value = version.parse().expect("a header");
                request.metadata_mut().insert(PROTOCOL_VERSION, value);
            }
            let mut check = check(here(), PeerAddresses::default(), Removed::default());
            let refused = check.call(request).expect_err("refused");
            assert_eq!(refused.code(), Code::PermissionDenied);
            assert!(refused.message().contains(word), "{version:?}: {}", refused.message());
        }
    }

    #[test]
    fn a_caller_with_other_data_than_the_one_before_waits() {
        let mut check = check_of(2, Removed::default());
        let mut call = |directory_id| {
            let caller = Identity::new(1, directory(directory_id), "c", &Proof::Nothing);
            check.call(Sign::new(&caller, 2).call(Request::new(())).expect("signed"))
        };
        assert!(call(1).is_ok());
        assert!(call(1).is_ok(), "a restart");
        let doubtful = call(2).expect_err("not yet");
        assert_eq!(doubtful.code(), Code::Unavailable);
    }

    #[test]
    fn a_node_over_an_old_copy_of_its_directory_is_told_so() {
        let mut check = check_of(2, Removed::default());
        let mut call = |written: u64| {
            let written = Arc::new(written.into());
            let directory = Directory { id: 7, written, ..Directory::default() };
            let caller = Identity::new(1, directory, "c", &Proof::Nothing);
            check.call(Sign::new(&caller, 2).call(Request::new(())).expect("signed"))
        };
        assert!(call(5).is_ok());
        assert!(call(5).is_ok(), "nothing was written meanwhile");
        let refused = call(4).expect_err("it forgot something");
        assert_eq!(refused.code(), Code::PermissionDenied);
        let why = refused.metadata().get(REFUSED).map(|why| why.as_bytes());
        assert_eq!(why, Some(b"outdated".as_slice()));
        assert!(call(0).is_ok(), "of one that does not count");
    }

    /// Each row: which founding this node knows of, which the caller does, and whether it is let in.
    #[test]
    fn a_node_of_another_founding_of_the_cluster_is_told_so() {
        for (ours, theirs, is_in) in
            [(0, 0, true), (0, 5, true), (5, 0, true), (5, 5, true), (5, 6, false)]
        {
            let directory = |id, founding: u32| {
                let founding = Arc::new(founding.into());
                Directory { id, founding, ..Directory::default() }
            };
            let here = Identity::new(2, directory(7, ours), "c", &Proof::Nothing);
            let caller = Identity::new(1, directory(8, theirs), "c", &Proof::Nothing);
            let told = answer(caller, 2, here);
            assert_eq!(told.is_ok(), is_in, "{ours} {theirs}: {told:?}");
        }
    }

    #[test]
    fn a_node_that_was_removed_is_told_so() {
        let removed = Removed::new(RwLock::new([3].into()));
        let mut check = check_of(2, removed);
        let mut call = |node| {
            let caller = Identity::new(node, directory(7), "c", &Proof::Nothing);
            check.call(Sign::new(&caller, 2).call(Request::new(())).expect("signed"))
        };
        assert!(call(1).is_ok());
        let refused = call(3).expect_err("it is out");
        assert_eq!(refused.code(), Code::PermissionDenied);
        assert_eq!(
            refused.metadata().get(REFUSED).map(|why| why.as_bytes()),
            Some(b"removed".as_slice())
        );
    }

    #[test]
    fn refusals_are_logged_once_per_peer_and_reason() {
        let check = check_of(1, Removed::default());
        for _ in 0..3 {
            check.refuse(Some(2), Reason::Cluster);
        }
        check.refuse(Some(3), Reason::Cluster);
        check.refuse(Some(3), Reason::Doubtful(3));
        assert_eq!(check.refusals.lock().len(), 2);
    }
}
