//! Every call says who calls whom in which cluster, and is refused before its body is read when
//! that is not right here.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tonic::metadata::{Ascii, AsciiMetadataValue, MetadataKey, MetadataMap};
use tonic::service::Interceptor;
use tonic::{Request, Status};
use tracing::warn;

use crate::metrics;

const CLUSTER: &str = "mayfly-cluster";
const FROM: &str = "mayfly-from";
const TO: &str = "mayfly-to";
const SECRET: &str = "mayfly-secret";

/// Distinct refusals that are logged; a port scan must not fill the log, nor memory.
const REFUSALS_MAX: usize = 256;

/// What a node says of itself and expects of others.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub node: u64,
    cluster: Vec<u8>,
    secret: Option<Vec<u8>>,
}

impl Identity {
    pub fn new(node: u64, cluster_id: &str, secret: Option<&str>) -> Identity {
        Identity {
            node,
            cluster: hex(cluster_id.as_bytes()),
            secret: secret.map(|secret| hex(secret.as_bytes())),
        }
    }
}

/// Any text as header characters: names and secrets may hold what a header may not.
fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// The calling node, known to handlers as an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub u64);

/// Signs calls to one peer.
#[derive(Clone, Debug)]
pub(crate) struct Sign {
    pairs: Arc<[(&'static str, AsciiMetadataValue)]>,
}

impl Sign {
    pub fn new(identity: &Identity, to: u64) -> Sign {
        let text = |bytes: &[u8]| {
            AsciiMetadataValue::try_from(bytes).unwrap_or_else(|_| AsciiMetadataValue::from(0))
        };
        let mut pairs = vec![
            (CLUSTER, text(&identity.cluster)),
            (FROM, AsciiMetadataValue::from(identity.node)),
            (TO, AsciiMetadataValue::from(to)),
        ];
        if let Some(secret) = &identity.secret {
            let mut secret = text(secret);
            secret.set_sensitive(true);
            pairs.push((SECRET, secret));
        }
        Sign { pairs: pairs.into() }
    }
}

impl Interceptor for Sign {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (key, value) in self.pairs.iter() {
            request.metadata_mut().insert(MetadataKey::<Ascii>::from_static(key), value.clone());
        }
        Ok(request)
    }
}

/// The claimed caller, and what is wrong.
type Refusal = (Option<u64>, &'static str);

/// Checks calls from peers.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    identity: Arc<Identity>,
    refusals: Arc<Mutex<BTreeSet<Refusal>>>,
}

impl Check {
    pub fn new(identity: Identity) -> Check {
        Check { identity: Arc::new(identity), refusals: Arc::default() }
    }

    /// The caller, or why it is refused.
    fn caller(&self, metadata: &MetadataMap) -> Result<u64, Refusal> {
        let bytes = |key| metadata.get(key).map(|value| value.as_bytes());
        let number = |key| metadata.get(key)?.to_str().ok()?.parse::<u64>().ok();
        let from = number(FROM);
        let secret = self.identity.secret.as_deref().unwrap_or_default();
        if !equal(secret, bytes(SECRET).unwrap_or_default()) {
            return Err((from, "the cluster secret is missing or differs"));
        }
        if bytes(CLUSTER) != Some(&self.identity.cluster) {
            return Err((from, "the cluster id differs: this node belongs to another cluster"));
        }
        if number(TO) != Some(self.identity.node) {
            return Err((from, "the call is for another node: check the addresses of the peers"));
        }
        match from {
            Some(node) if node != self.identity.node => Ok(node),
            _ => Err((from, "the caller has no node id, or this node's own")),
        }
    }

    /// Logs a refusal the first time: a misconfigured peer tries again several times a second.
    fn refuse(&self, from: Option<u64>, reason: &'static str) -> Status {
        metrics::refused();
        let mut seen = self.refusals.lock();
        if seen.len() < REFUSALS_MAX && seen.insert((from, reason)) {
            warn!(from, reason, "refused a peer; further refusals of this kind are not logged");
        }
        Status::permission_denied(reason)
    }
}

impl Interceptor for Check {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        match self.caller(request.metadata()) {
            Ok(node) => {
                request.extensions_mut().insert(Caller(node));
                Ok(request)
            }
            Err((from, reason)) => Err(self.refuse(from, reason)),
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
    use super::*;

    fn answer(caller: Identity, to: u64, here: Identity) -> Result<u64, String> {
        let signed = Sign::new(&caller, to).call(Request::new(())).expect("signed");
        let checked =
            Check::new(here).call(signed).map_err(|status| status.message().to_owned())?;
        Ok(checked.extensions().get::<Caller>().expect("a caller").0)
    }

    #[test]
    fn only_the_right_peer_of_the_right_cluster_with_the_right_secret_gets_in() {
        let node = |node, cluster, secret| Identity::new(node, cluster, secret);
        let here = || node(2, "c", Some("s\n\u{e9}"));
        assert_eq!(answer(node(1, "c", Some("s\n\u{e9}")), 2, here()), Ok(1));
        for (caller, to, word) in [
            (node(1, "d", Some("s\n\u{e9}")), 2, "cluster id"),
            (node(1, "c", Some("t")), 2, "secret"),
            (node(1, "c", None), 2, "secret"),
            (node(1, "c", Some("s\n\u{e9}")), 3, "another node"),
            (node(2, "c", Some("s\n\u{e9}")), 2, "own"),
        ] {
            let reason = answer(caller, to, here()).expect_err("refused");
            assert!(reason.contains(word), "{reason}");
        }
        assert_eq!(answer(node(1, "c", None), 2, node(2, "c", None)), Ok(1));
    }

    #[test]
    fn refusals_are_logged_once_per_peer_and_reason() {
        let check = Check::new(Identity::new(1, "c", None));
        for _ in 0..3 {
            check.refuse(Some(2), "reason");
        }
        check.refuse(Some(3), "reason");
        assert_eq!(check.refusals.lock().len(), 2);
    }
}
