//! Which resource a path names.

/// Entries of one page, at most and by default.
const PAGE_MAX: usize = 100;

/// What a request is about. Names are as the client wrote them.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    Namespace,
    Queues(Window),
    Topics(Window),
    /// A queue or a topic: they share one name space (ENT-2).
    Entity(String),
    /// Subscriptions of a topic, or rules of one.
    Below(String),
}

/// The part of a list that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub skip: usize,
    pub top: usize,
}

/// Reads path and query as they were sent. `None`: no such resource.
pub(super) fn target(path: &str, query: Option<&str>) -> Option<Target> {
    let path = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
    let path = path.trim_matches('/');
    let lower = path.to_ascii_lowercase();
    Some(match lower.as_str() {
        "" => return None,
        "$namespaceinfo" => Target::Namespace,
        "$resources/queues" => Target::Queues(window(query)),
        "$resources/topics" => Target::Topics(window(query)),
        reserved if reserved.starts_with('$') => return None,
        below if below.contains("/subscriptions/") || below.ends_with("/subscriptions") => {
            Target::Below(path.to_owned())
        }
        _ => Target::Entity(path.to_owned()),
    })
}

/// What cannot be read is taken for absent, as the service does.
fn window(query: Option<&str>) -> Window {
    let mut window = Window { skip: 0, top: PAGE_MAX };
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let Ok(value) = value.parse::<usize>() else { continue };
        match &*name {
            "$skip" => window.skip = value,
            "$top" => window.top = value.min(PAGE_MAX),
            _ => (),
        }
    }
    window
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_resources_whatever_their_case() {
        let entity = |name: &str| Some(Target::Entity(name.to_owned()));
        let below = |path: &str| Some(Target::Below(path.to_owned()));
        let first = Window { skip: 0, top: 100 };
        for (path, query, expected) in [
            ("/Orders", None, entity("Orders")),
            ("/Orders/", Some("api-version=2021-05"), entity("Orders")),
            ("/a%2Fb", None, entity("a/b")),
            ("/a/b", None, entity("a/b")),
            ("/$namespaceinfo", None, Some(Target::Namespace)),
            ("/$Resources/Queues", None, Some(Target::Queues(first))),
            (
                "/$Resources/queues",
                Some("%24skip=100&$top=7"),
                Some(Target::Queues(Window { skip: 100, top: 7 })),
            ),
            ("/$Resources/Topics", Some("$top=1000&$skip=x"), Some(Target::Topics(first))),
            ("/t/Subscriptions/", None, below("t/Subscriptions")),
            ("/t/subscriptions/s/Rules/r", None, below("t/subscriptions/s/Rules/r")),
            ("/subscriptions", None, entity("subscriptions")),
            ("/", None, None),
            ("/$else", None, None),
            ("/%ff", None, None),
        ] {
            assert_eq!(target(path, query), expected, "{path}");
        }
    }
}
