//! Which resource a path names, and which part of a list its query asks for.

mod filter;

use audit::Action;
use auth::Right;
use axum::http::Method;
use domain::{Excerpt, LockToken, SubQueue, subscription_path};
use uuid::Uuid;

pub(crate) use filter::{ListFilter, ListedEntry};

/// Entries of one page, at most and by default.
const PAGE_MAX: usize = 100;
const SUBSCRIPTIONS: &str = "/subscriptions";
const MESSAGES: &str = "/messages";
/// No entity is called so (ENT-1).
const HISTORY: &str = "/$history";
/// The longer first, as it ends like the other.
const SUB_QUEUES: [(&str, SubQueue); 2] = [
    ("/$transfer/$deadletterqueue", SubQueue::TransferDeadLetter),
    ("/$deadletterqueue", SubQueue::DeadLetter),
];

/// What a request is about. Names are as the client wrote them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Namespace,
    Queues(Window),
    Topics(Window),
    /// A queue or a topic: they share one name space (ENT-2).
    Entity(String),
    Subscriptions {
        topic: String,
        window: Window,
    },
    Subscription {
        topic: String,
        name: String,
    },
    Rules {
        topic: String,
        subscription: String,
        window: Window,
    },
    Rule {
        topic: String,
        subscription: String,
        name: String,
    },
    /// To be sent to.
    Messages {
        entity: String,
    },
    /// The next message there.
    Head {
        queue: String,
        sub: SubQueue,
    },
    /// A message that is locked.
    Lock {
        queue: String,
        sub: SubQueue,
        token: LockToken,
    },
    /// What became of messages that came to an entity, and, where they are followed, of the same elsewhere.
    History {
        entity: String,
        follow: bool,
    },
    /// Rules for faults that clients meet, or the one of that name.
    Faults {
        name: Option<String>,
    },
}

impl Target {
    /// The entity it is of, if it is one's.
    pub fn entity(&self) -> Option<&str> {
        match self {
            Target::Namespace | Target::Queues(_) | Target::Topics(_) | Target::Faults { .. } => {
                None
            }
            Target::Entity(name)
            | Target::Messages { entity: name }
            | Target::History { entity: name, .. } => Some(name),
            Target::Subscriptions { topic, .. }
            | Target::Subscription { topic, .. }
            | Target::Rules { topic, .. }
            | Target::Rule { topic, .. } => Some(topic),
            Target::Head { queue, .. } | Target::Lock { queue, .. } => Some(queue),
        }
    }

    /// What it takes: Manage for entities, the right of the operation for messages (HTTP-12).
    pub fn right(&self) -> Right {
        match self {
            Target::Namespace
            | Target::Queues(_)
            | Target::Topics(_)
            | Target::Entity(_)
            | Target::Subscriptions { .. }
            | Target::Subscription { .. }
            | Target::Rules { .. }
            | Target::Rule { .. } => Right::Manage,
            Target::Messages { .. } => Right::Send,
            Target::Head { .. } | Target::Lock { .. } | Target::History { .. } => Right::Listen,
            Target::Faults { .. } => Right::InjectFaults,
        }
    }
}

impl Target {
    /// What a request does to entities and rules, and to which; `None`: it only reads, or is about
    /// messages. `is_update`: a description replaces another.
    pub fn action(&self, method: &Method, is_update: bool) -> Option<(Action, String)> {
        let changed = |put: Action, delete: Action| match *method {
            Method::PUT => Some(put),
            Method::DELETE => Some(delete),
            _ => None,
        };
        let put = if is_update { Action::EntityUpdate } else { Action::EntityCreate };
        match self {
            Target::Entity(name) => Some((changed(put, Action::EntityDelete)?, name.clone())),
            Target::Subscription { topic, name } => {
                Some((changed(put, Action::EntityDelete)?, subscription_path(topic, name)))
            }
            Target::Rule { topic, subscription, name } => {
                let of = subscription_path(topic, subscription);
                Some((changed(Action::RulePut, Action::RuleDelete)?, format!("{of}/rules/{name}")))
            }
            Target::Faults { name } => {
                let of = name.clone().unwrap_or_else(|| "all".to_owned());
                Some((changed(Action::FaultPut, Action::FaultRemove)?, of))
            }
            Target::Namespace
            | Target::Queues(_)
            | Target::Topics(_)
            | Target::Subscriptions { .. }
            | Target::Rules { .. }
            | Target::Messages { .. }
            | Target::Head { .. }
            | Target::Lock { .. }
            | Target::History { .. } => None,
        }
    }
}

/// The part of a list that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub skip: usize,
    pub top: usize,
    pub filter: Option<ListFilter>,
}

/// Why a path names no resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unclear {
    Nothing,
    /// ATOM-22: the query of a list asks for what cannot be had.
    Query(String),
}

/// Reads path and query as they were sent. What an entity may be called, the method tells apart from
/// the message operations (ENT-13).
pub(crate) fn target(method: &Method, path: &str, query: Option<&str>) -> Result<Target, Unclear> {
    let path = percent_encoding::percent_decode_str(path);
    let path = path.decode_utf8().map_err(|_| Unclear::Nothing)?;
    let path = path.trim_matches('/');
    // The same bytes at the same places: only ASCII letters change.
    let lower = path.to_ascii_lowercase();
    match lower.as_str() {
        "" => return Err(Unclear::Nothing),
        "$namespaceinfo" => return Ok(Target::Namespace),
        "$resources/queues" => return Ok(Target::Queues(window(query)?)),
        "$resources/topics" => return Ok(Target::Topics(window(query)?)),
        "$faults" => return Ok(Target::Faults { name: None }),
        one if one.starts_with("$faults/") => {
            return Ok(Target::Faults { name: Some(path["$faults/".len()..].to_owned()) });
        }
        reserved if reserved.starts_with('$') => return Err(Unclear::Nothing),
        _ => (),
    }
    if let Some(entity) = lower.strip_suffix(HISTORY).filter(|entity| !entity.is_empty()) {
        let follow = follows(query);
        return Ok(Target::History { entity: path[..entity.len()].to_owned(), follow });
    }
    if let Some(target) = message(method, path, &lower) {
        return Ok(target);
    }
    if let Some(topic) = lower.strip_suffix(SUBSCRIPTIONS).filter(|topic| !topic.is_empty()) {
        let (topic, window) = (path[..topic.len()].to_owned(), window(query)?);
        return Ok(Target::Subscriptions { topic, window });
    }
    match lower.rfind("/subscriptions/") {
        None | Some(0) => Ok(Target::Entity(path.to_owned())),
        Some(at) => below(&path[..at], &path[at + "/subscriptions/".len()..], query),
    }
}

fn follows(query: Option<&str>) -> bool {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.any(|(name, value)| {
        name.eq_ignore_ascii_case("follow") && value.eq_ignore_ascii_case("true")
    })
}

/// A subscription of a topic, or what belongs to it.
fn below(topic: &str, rest: &str, query: Option<&str>) -> Result<Target, Unclear> {
    let topic = topic.to_owned();
    let Some((subscription, rest)) = rest.split_once('/') else {
        return Ok(Target::Subscription { topic, name: rest.to_owned() });
    };
    let subscription = subscription.to_owned();
    match rest.split_once('/') {
        None if rest.eq_ignore_ascii_case("rules") => {
            Ok(Target::Rules { topic, subscription, window: window(query)? })
        }
        Some((rules, name)) if rules.eq_ignore_ascii_case("rules") => {
            Ok(Target::Rule { topic, subscription, name: name.to_owned() })
        }
        _ => Err(Unclear::Nothing),
    }
}

/// Sending and receiving, as far as the method belongs to it.
fn message(method: &Method, path: &str, lower: &str) -> Option<Target> {
    if let Some(entity) = lower.strip_suffix(MESSAGES).filter(|_| method == Method::POST) {
        return Some(Target::Messages { entity: path[..entity.len()].to_owned() });
    }
    if let Some(queue) = lower.strip_suffix("/messages/head")
        && matches!(*method, Method::POST | Method::DELETE)
    {
        let (queue, sub) = sub_queue(&path[..queue.len()]);
        return Some(Target::Head { queue, sub });
    }
    // The id between them is not needed: the token says which message it is.
    let at = lower.rfind("/messages/").filter(|at| *at > 0)?;
    let (_, token) = path[at + "/messages/".len()..].rsplit_once('/')?;
    let token = LockToken::from_bytes(Uuid::parse_str(token).ok()?.into_bytes());
    let (queue, sub) = sub_queue(&path[..at]);
    Some(Target::Lock { queue, sub, token })
}

fn sub_queue(path: &str) -> (String, SubQueue) {
    let lower = path.to_ascii_lowercase();
    let found = SUB_QUEUES.into_iter().find_map(|(suffix, sub)| {
        let parent = lower.strip_suffix(suffix)?;
        Some((path[..parent.len()].to_owned(), sub))
    });
    found.unwrap_or_else(|| (path.to_owned(), SubQueue::Main))
}

/// ATOM-22. Names of parameters are as OData has them, in whatever case; those that are no option of a
/// query are passed over (HTTP-6).
fn window(query: Option<&str>) -> Result<Window, Unclear> {
    let mut window = Window { skip: 0, top: PAGE_MAX, filter: None };
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let number = || {
            let read = value.trim().parse::<u32>().ok().and_then(|n| usize::try_from(n).ok());
            read.ok_or_else(|| {
                Unclear::Query(format!(
                    "{name} is '{}', and takes a number from 0 on",
                    Excerpt(&value)
                ))
            })
        };
        match name.to_ascii_lowercase().as_str() {
            "$skip" => window.skip = number()?,
            "$top" => window.top = number()?.min(PAGE_MAX),
            "$filter" if value.trim().is_empty() => (),
            "$filter" => window.filter = Some(ListFilter::parse(&value).map_err(Unclear::Query)?),
            option if option.starts_with('$') => {
                return Err(Unclear::Query(format!(
                    "{} is not supported; lists take $skip, $top and $filter",
                    Excerpt(&name)
                )));
            }
            _ => (),
        }
    }
    Ok(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_3_to_http_5_paths_name_resources_whatever_their_case() {
        let entity = |name: &str| Ok(Target::Entity(name.to_owned()));
        let nothing = || Err(Unclear::Nothing);
        let history =
            |entity: &str, follow| Ok(Target::History { entity: entity.to_owned(), follow });
        let window = Window { skip: 0, top: 100, filter: None };
        let page = |skip, top| Window { skip, top, filter: None };
        let subscriptions = |topic: &str| {
            let (topic, window) = (topic.to_owned(), window.clone());
            Ok(Target::Subscriptions { topic, window })
        };
        let subscription = |topic: &str, name: &str| {
            let (topic, name) = (topic.to_owned(), name.to_owned());
            Ok(Target::Subscription { topic, name })
        };
        let rules = |topic: &str, subscription: &str| {
            let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
            let window = window.clone();
            Ok(Target::Rules { topic, subscription, window })
        };
        let rule = |topic: &str, subscription: &str, name: &str| {
            let [topic, subscription, name] = [topic, subscription, name].map(str::to_owned);
            Ok(Target::Rule { topic, subscription, name })
        };
        for (path, query, expected) in [
            ("/Orders", None, entity("Orders")),
            ("/Orders/", Some("api-version=2021-05"), entity("Orders")),
            ("/a%2Fb", None, entity("a/b")),
            ("/a/b", None, entity("a/b")),
            ("/$namespaceinfo", None, Ok(Target::Namespace)),
            ("/a/q/$History", Some("message-id=x"), history("a/q", false)),
            (
                "/t/subscriptions/s/$history",
                Some("Follow=TRUE"),
                history("t/subscriptions/s", true),
            ),
            ("/$history", None, nothing()),
            ("/$faults", None, Ok(Target::Faults { name: None })),
            ("/$Faults/Lost%20lock", None, Ok(Target::Faults { name: Some("Lost lock".into()) })),
            ("/$Resources/Queues", None, Ok(Target::Queues(window.clone()))),
            ("/$Resources/queues", Some("%24skip=100&$top=7"), Ok(Target::Queues(page(100, 7)))),
            ("/$Resources/Topics", Some("$top=1000"), Ok(Target::Topics(window.clone()))),
            ("/t/Subscriptions/", None, subscriptions("t")),
            ("/a%2Ft/subscriptions", None, subscriptions("a/t")),
            ("/a/t/SUBSCRIPTIONS/S", None, subscription("a/t", "S")),
            ("/a%2Ft/subscriptions/s/", None, subscription("a/t", "s")),
            ("/t/Subscriptions/s/Rules/", None, rules("t", "s")),
            ("/a/t/subscriptions/s/rules", None, rules("a/t", "s")),
            ("/t/subscriptions/s/Rules/$Default", None, rule("t", "s", "$Default")),
            ("/t/subscriptions/s/rules/a%20b", None, rule("t", "s", "a b")),
            ("/a/subscriptions/subscriptions/c", None, subscription("a/subscriptions", "c")),
            ("/t/subscriptions/s/else", None, nothing()),
            ("/subscriptions", None, entity("subscriptions")),
            ("/subscriptions/x", None, entity("subscriptions/x")),
            ("/x/messages", None, entity("x/messages")),
            ("/x/messages/head", None, entity("x/messages/head")),
            ("/", None, nothing()),
            ("/$else", None, nothing()),
            ("/%ff", None, nothing()),
        ] {
            assert_eq!(target(&Method::GET, path, query), expected, "{path}");
        }
    }

    #[test]
    fn rest_9_messages_are_told_from_entities_by_the_method() {
        const TOKEN: &str = "00000000-0000-0007-0000-000000000009";
        let token = LockToken::from_bytes(Uuid::parse_str(TOKEN).unwrap().into_bytes());
        let main = SubQueue::Main;
        let lock = |queue: &str, sub| Target::Lock { queue: queue.to_owned(), sub, token };
        let head = |queue: &str, sub| Target::Head { queue: queue.to_owned(), sub };
        for (method, path, expected) in [
            (Method::POST, "/a/b/messages".to_owned(), Target::Messages { entity: "a/b".into() }),
            (Method::POST, "/q/Messages/head".to_owned(), head("q", main)),
            (Method::DELETE, "/q/messages/head".to_owned(), head("q", main)),
            (
                Method::POST,
                "/t/subscriptions/s/messages/head/".to_owned(),
                head("t/subscriptions/s", main),
            ),
            (
                Method::DELETE,
                "/q/$DeadLetterQueue/messages/head".to_owned(),
                head("q", SubQueue::DeadLetter),
            ),
            (
                Method::DELETE,
                "/q/$Transfer/$DeadLetterQueue/messages/head".to_owned(),
                head("q", SubQueue::TransferDeadLetter),
            ),
            (Method::DELETE, format!("/q/messages/7/{TOKEN}"), lock("q", main)),
            (Method::PUT, format!("/q/messages/a%2Fb/{TOKEN}"), lock("q", main)),
            (
                Method::POST,
                format!("/q/$deadletterqueue/messages/7/{TOKEN}"),
                lock("q", SubQueue::DeadLetter),
            ),
            (Method::PUT, "/q/messages".to_owned(), Target::Entity("q/messages".into())),
            (Method::PUT, "/q/messages/7/8".to_owned(), Target::Entity("q/messages/7/8".into())),
        ] {
            assert_eq!(target(&method, &path, None), Ok(expected), "{path}");
        }
    }

    #[test]
    fn atom_22_options_of_a_list_are_honoured_or_refused() {
        let queues = |query: &str| target(&Method::GET, "/$Resources/Queues", Some(query));
        for (query, skip, top) in [
            ("", 0, 100),
            ("api-version=2017-04&enrich=false&unheard=of", 0, 100),
            ("$skip=3", 3, 100),
            ("%24Skip=3&$TOP=7", 3, 7),
            ("$top=0", 0, 0),
            ("$top=100000", 0, 100),
            ("$filter=", 0, 100),
        ] {
            let window = Window { skip, top, filter: None };
            assert_eq!(queues(query), Ok(Target::Queues(window)), "{query}");
        }
        for query in [
            "$top=abc",
            "$top=-1",
            "$top=",
            "$skip=-1",
            "$skip=1.5",
            "$skip=99999999999999999999",
            "$orderby=Path",
            "$select=Path",
            "$count=true",
            "$filter=Path",
            "$filter=startswith(Path)%20eq%20true",
        ] {
            let refused = queues(query);
            assert!(matches!(refused, Err(Unclear::Query(_))), "{query}: {refused:?}");
        }
    }

    /// ENT-13: whatever an entity may be called, its path is its own, save for what is sent to it.
    #[test]
    fn ent_13_no_entity_is_called_like_what_belongs_to_another() {
        const UUID: &str = "00000000-0000-0007-0000-000000000009";
        let parts =
            ["q", "messages", "head", "subscriptions", "rules", "health", "metrics", UUID, "7"];
        let plain = UUID.replace('-', "");
        let parts: Vec<&str> = parts.into_iter().chain([plain.as_str()]).collect();
        let mut allowed = 0;
        for length in 1..=4u32 {
            for number in 0..parts.len().pow(length) {
                let digits =
                    (0..length).map(|place| parts[number / parts.len().pow(place) % parts.len()]);
                let name = digits.collect::<Vec<_>>().join("/");
                if domain::validate::queue_name(&name).is_err() {
                    continue;
                }
                allowed += 1;
                for method in [Method::GET, Method::PUT, Method::DELETE] {
                    let found = target(&method, &format!("/{name}"), None);
                    assert_eq!(found, Ok(Target::Entity(name.clone())), "{method} {name}");
                }
                let sent = target(&Method::POST, &format!("/{name}/messages"), None);
                assert_eq!(sent, Ok(Target::Messages { entity: name.clone() }));
            }
        }
        assert!(allowed > 1000, "{allowed} of the names are allowed");
    }
}
