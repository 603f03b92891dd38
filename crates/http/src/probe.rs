//! The node's own paths that an entity's name could be as well (HTTP-21). One table: who is let in and
//! what a path takes are made from it.

use axum::http::{Method, Uri};

/// What is asked of the node itself, and not of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Health,
    Live,
    Ready,
    Details,
    Metrics,
}

const PROBES: [(&str, Probe); 5] = [
    ("/health", Probe::Health),
    ("/health/live", Probe::Live),
    ("/health/ready", Probe::Ready),
    ("/health/details", Probe::Details),
    ("/metrics", Probe::Metrics),
];
/// What clients that manage entities always send, and probes and scrapers never.
const OF_MANAGEMENT: &str = "api-version";

/// The probe that a request is; every other request at such a path is about the entity of that name.
pub(crate) fn probe(method: &Method, uri: &Uri) -> Option<Probe> {
    let (_, probe) = PROBES.into_iter().find(|(path, _)| *path == uri.path())?;
    let reads = matches!(*method, Method::GET | Method::HEAD);
    (reads && !is_of_management(uri)).then_some(probe)
}

/// Whether a request is one of a client that manages entities.
pub(crate) fn is_of_management(uri: &Uri) -> bool {
    let mut query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    query.any(|(name, _)| name.eq_ignore_ascii_case(OF_MANAGEMENT))
}

impl Probe {
    /// Whether it takes nothing: it tells a stranger no more than an open port does (HTTP-12).
    pub fn is_free(self) -> bool {
        match self {
            Probe::Health | Probe::Live | Probe::Ready => true,
            Probe::Details | Probe::Metrics => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{self, Target};

    #[test]
    fn http_21_a_probe_is_a_plain_get_of_its_path_and_all_else_is_the_entitys() {
        for (path, expected) in PROBES {
            for (method, query, is_probe) in [
                (Method::GET, "", true),
                (Method::HEAD, "", true),
                (Method::GET, "?verbose=1", true),
                (Method::GET, "?api-version=2021-05", false),
                (Method::GET, "?enrich=false&Api-Version=2017-04", false),
                (Method::PUT, "", false),
                (Method::PUT, "?api-version=2021-05", false),
                (Method::DELETE, "", false),
            ] {
                let uri: Uri = format!("{path}{query}").parse().expect("a path");
                let found = probe(&method, &uri);
                assert_eq!(found, is_probe.then_some(expected), "{method} {uri}");
                if !is_probe {
                    let name = path.trim_start_matches('/').to_owned();
                    let target = path::target(&method, uri.path(), uri.query());
                    assert_eq!(target.ok(), Some(Target::Entity(name)), "{method} {uri}");
                }
            }
            let below: Uri = format!("{path}/messages").parse().expect("a path");
            assert_eq!(probe(&Method::GET, &below), None);
        }
    }
}
