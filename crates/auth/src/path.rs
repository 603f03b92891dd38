//! What a right is for: an entity and all below it, however a client spells it.

use percent_encoding::percent_decode_str;

/// The path of a resource, an audience or an address (§2, §3 of the AMQP contract, §3 of the one for
/// management): scheme, authority and query dropped, percent-decoded, slashes at its ends dropped, in
/// lower case. Empty for the whole namespace.
pub fn resource_path(resource: &str) -> String {
    let decoded = percent_decode_str(resource).decode_utf8_lossy();
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let path = match decoded.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => {
            rest.split_once('/').map_or("", |(_, path)| path)
        }
        _ => &decoded,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    // Within a signed URL the path was encoded before the URL was. No name holds a `%` (ENT-1).
    let path = percent_decode_str(path).decode_utf8_lossy();
    path.trim_matches('/').to_ascii_lowercase()
}

/// Whether `inner` is `outer` or lies below it; both normalised. A token for `q` covers `q/$management`
/// and not `q2`.
pub fn covers(outer: &str, inner: &str) -> bool {
    match inner.strip_prefix(outer) {
        Some(rest) => outer.is_empty() || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: as a client of some SDK writes it, and what it is.
    #[test]
    fn section_3_every_spelling_names_the_same_path() {
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
    fn section_2_a_path_covers_itself_and_below() {
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
