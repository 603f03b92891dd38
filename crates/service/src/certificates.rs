//! Until when this node's certificates count, as whoever reads their files tells; and how long before an end
//! people are told of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use replication::CertificateEnd;

const DAY_S: i64 = 24 * 3600;
/// A certificate that ends within this is told of.
const TOLD_BEFORE_S: i64 = 14 * DAY_S;

/// The ends of a node's certificates, by whom they are shown to.
#[derive(Clone, Debug, Default)]
pub struct CertificateEnds(Arc<RwLock<BTreeMap<&'static str, i64>>>);

impl CertificateEnds {
    /// `at_s`: seconds since the Unix epoch.
    pub fn set(&self, shown_to: &'static str, at_s: i64) {
        self.0.write().insert(shown_to, at_s);
    }

    pub(crate) fn all(&self) -> Vec<CertificateEnd> {
        let end = |(shown_to, at_s): (&&str, &i64)| CertificateEnd {
            shown_to: (*shown_to).to_owned(),
            at_s: *at_s,
        };
        self.0.read().iter().map(end).collect()
    }
}

/// What to say of a certificate that counts for so many seconds more; nothing if that is long enough.
pub fn certificate_trouble(left_s: i64) -> Option<String> {
    match left_s {
        ..0 => Some("has expired: nobody takes it".to_owned()),
        0..DAY_S => Some("ends within a day".to_owned()),
        DAY_S..=TOLD_BEFORE_S => Some(format!("ends in {} days", left_s / DAY_S)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_of_two_weeks_before() {
        for (left_s, told) in [
            (-1, Some("has expired: nobody takes it")),
            (0, Some("ends within a day")),
            (DAY_S, Some("ends in 1 days")),
            (14 * DAY_S, Some("ends in 14 days")),
            (14 * DAY_S + 1, None),
        ] {
            assert_eq!(certificate_trouble(left_s).as_deref(), told, "{left_s}");
        }
    }
}
