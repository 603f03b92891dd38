//! Where a description forwards to (FWD-2).

use crate::atom;

/// Elements of a description, and the headers with tokens for where they forward to.
pub(super) const FORWARDING: [(&str, &str); 2] = [
    ("ForwardTo", "servicebussupplementaryauthorization"),
    ("ForwardDeadLetteredMessagesTo", "servicebusdlqsupplementaryauthorization"),
];

/// A way a description forwards.
pub(super) struct Forward {
    pub element: &'static str,
    /// Of the request, with the token for it.
    pub header: &'static str,
    /// The name of the entity, as the description is read: not as rights would be, which is another
    /// reading of what a client writes.
    pub target: String,
}

/// Each way a description forwards. It is read as it is read next, or a body could say one thing here
/// and another there; one that cannot be read is refused there.
pub(super) fn forwards(body: &[u8]) -> Vec<Forward> {
    let Ok(text) = atom::text(body) else { return Vec::new() };
    let Ok(document) = atom::parse(text) else { return Vec::new() };
    let mut found = Vec::new();
    for node in document.descendants() {
        let named = FORWARDING.iter().find(|(element, _)| *element == node.tag_name().name());
        let target = node.text().map(str::trim).filter(|target| !target.is_empty());
        if let (Some((element, header)), Some(target)) = (named, target) {
            found.push(Forward { element, header, target: auth::addressed(target) });
        }
    }
    found
}
