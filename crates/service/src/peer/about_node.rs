//! What a node tells of itself, wherever it is asked.

use domain::FEATURE_LEVEL_KNOWN;
use replication::NodeDescription;
use tokio::time::Instant;

use crate::certificates::CertificateEnds;
use crate::leader::Groups;

/// What stays the same while the node's process runs, and where the rest stands.
#[derive(Clone, Debug)]
pub(crate) struct AboutNode {
    version: &'static str,
    started_at: Instant,
    certificates: CertificateEnds,
    zone: Option<String>,
}

impl AboutNode {
    pub fn new(
        version: &'static str,
        certificates: CertificateEnds,
        zone: Option<String>,
    ) -> AboutNode {
        AboutNode { version, started_at: Instant::now(), certificates, zone }
    }

    pub fn describe(&self, groups: &Groups) -> NodeDescription {
        NodeDescription {
            version: self.version.to_owned(),
            feature_level: FEATURE_LEVEL_KNOWN,
            up_ms: self.started_at.elapsed().as_millis() as u64,
            certificates: self.certificates.all(),
            led: groups.all().iter().filter_map(|group| group.led_group()).collect(),
            zone: self.zone.clone(),
        }
    }
}
