//! What a right is for: an entity and all below it, however a client spells it.

use percent_encoding::percent_decode_str;

/// The path of a resource, an audience or an address (CBS-8, LINK-2, HTTP-11): scheme, authority and
/// query dropped, percent-decoded, slashes at its ends dropped, in
/// lower case. Empty for the whole namespace.
pub fn resource_path(resource: &str) -> String {
    let decoded = percent_decode_str(resource).decode_utf8_lossy();
    let path = without_authority(&decoded);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    // Within a signed URL the path was encoded before the URL was. No name holds a `%` (ENT-1).
    let path = percent_decode_str(path).decode_utf8_lossy();
    path.trim_matches('/').to_ascii_lowercase()
}

/// What an address names, with the case it is written in: clients write a name as it is, with a slash
/// before it or as a URL, and encode what they like. What is opened by an address is what its rights
/// are asked for by: the same text may read as another [`resource_path`].
pub fn addressed(address: &str) -> String {
    let name = percent_decode_str(without_authority(address)).decode_utf8_lossy();
    name.trim_matches('/').to_owned()
}

/// The host of an address that is a URL, without its port.
pub fn host_of(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    (is_scheme(scheme) && !host.is_empty()).then_some(host)
}

fn is_scheme(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn without_authority(address: &str) -> &str {
    match address.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => {
            rest.split_once('/').map_or("", |(_, path)| path)
        }
        _ => address,
    }
}

/// Whether `inner` is `outer` or lies below it; both normalised. A token for `q` covers `q/$management`
/// and not `q2`.
pub fn covers(outer: &str, inner: &str) -> bool {
    match inner.strip_prefix(outer) {
        Some(rest) => outer.is_empty() || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

/// The queue or topic that a path is of, itself or as what it is below: a subscription, a subqueue, its
/// management. Empty for the whole namespace and for nodes that are no entity's.
pub fn entity_path(path: &str) -> &str {
    // No name holds either (ENT-1).
    let ends = ["/$", "/subscriptions/"].into_iter().filter_map(|below| path.find(below));
    let entity = ends.min().map_or(path, |end| &path[..end]);
    if entity.starts_with('$') { "" } else { entity }
}

/// How far below its path a right goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// To all whose path begins like that, other entities too.
    #[default]
    Below,
    /// To the entity with its subscriptions and subqueues, and to no other.
    Entity,
}

impl Reach {
    /// Whether what is for `outer` is for `inner`; both normalised.
    pub(crate) fn covers(self, outer: &str, inner: &str) -> bool {
        let is_within = match self {
            Reach::Below => true,
            Reach::Entity => entity_path(outer) == entity_path(inner),
        };
        is_within && covers(outer, inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: as a client of some SDK writes it, and what it is.
    #[test]
    fn cbs_8_http_11_every_spelling_names_the_same_path() {
        for (resource, path) in [
            ("sb://localhost:5672/Orders", "orders"),
            ("amqps://host/a%2Fb/Subscriptions/s", "a/b/subscriptions/s"),
            ("/q", "q"),
            ("q/$management", "q/$management"),
            ("/a://b/q", "a://b/q"),
            // Management: Python, JS and .NET.
            ("https%3A%2F%2Flocalhost%3A5300", ""),
            ("https%3a%2f%2flocalhost%3a5300%2fa%252fb%3fapi-version%3d2021-05", "a/b"),
            ("http%3A%2F%2Flocalhost%3A5300%2Fq%2F", "q"),
            ("", ""),
            ("/", ""),
        ] {
            assert_eq!(resource_path(resource), path, "{resource}");
        }
    }

    #[test]
    fn link_2_an_address_names_one_entity() {
        for (address, name) in [
            ("Orders", "Orders"),
            ("/a/b/", "a/b"),
            ("amqps://localhost:5672/a%2Fb/Subscriptions/s", "a/b/Subscriptions/s"),
            ("sb://host", ""),
            // What stands before is no scheme.
            ("orders/$x://h/secret", "orders/$x://h/secret"),
            ("orders/x://h/secret", "orders/x://h/secret"),
            ("orders%2Fx://h/secret", "orders/x://h/secret"),
        ] {
            assert_eq!(addressed(address), name, "{address}");
        }
    }

    #[test]
    fn ent_12_a_path_is_of_its_entity() {
        for (path, entity) in [
            ("", ""),
            ("$cbs", ""),
            ("q", "q"),
            ("a/b", "a/b"),
            ("a/b/$management", "a/b"),
            ("q/$deadletterqueue/$management", "q"),
            ("q/$transfer/$deadletterqueue", "q"),
            ("a/t/subscriptions/s", "a/t"),
            ("t/subscriptions/s/$deadletterqueue", "t"),
        ] {
            assert_eq!(entity_path(path), entity, "{path}");
        }
    }

    /// A queue `a` and a queue `a/b` are two.
    #[test]
    fn ent_12_a_rule_of_an_entity_reaches_no_other_below_its_name() {
        for (outer, inner, below, entity) in [
            ("a", "a", true, true),
            ("a", "a/$management", true, true),
            ("a", "a/subscriptions/s", true, true),
            ("a", "a/b", true, false),
            ("a", "a/b/$management", true, false),
            ("a/$management", "a/$management", true, true),
            ("a/$management", "a", false, false),
        ] {
            assert_eq!(Reach::Below.covers(outer, inner), below, "{outer} {inner}");
            assert_eq!(Reach::Entity.covers(outer, inner), entity, "{outer} {inner}");
        }
    }

    #[test]
    fn cbs_9_a_path_covers_itself_and_below() {
        for (outer, inner, covered) in [
            ("", "q", true),
            ("", "", true),
            ("q", "q", true),
            ("q", "q/$management", true),
            ("q", "q2", false),
            ("q", "", false),
            ("t/subscriptions/s", "t", false),
        ] {
            assert_eq!(covers(outer, inner), covered, "{outer} {inner}");
        }
    }
}
