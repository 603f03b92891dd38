//! Names of entities in all the cluster: those that clients say, each in its namespace.

use std::sync::Arc;

/// Before the namespace in a qualified name, and behind it. No name of an entity or a namespace holds either (ENT-1,
/// NS-2); and as the first is below all that a name may begin with, the names of the default namespace come after all
/// others in the directory.
pub(crate) const BEFORE: char = '+';
pub(crate) const BEHIND: char = ':';
/// Above every qualified name, and below every other.
pub const QUALIFIED_END: &str = ",";

/// An entity's name in all the cluster, a subscription's path included: what a client said, put into his namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName(Arc<str>);

impl QualifiedName {
    /// One that the catalog or a group has told.
    pub fn known(name: &str) -> QualifiedName {
        QualifiedName(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn shared(&self) -> Arc<str> {
        self.0.clone()
    }

    /// As clients of its namespace know it.
    pub fn told(&self) -> &str {
        told_name(&self.0)
    }

    pub fn to_lowercase(&self) -> QualifiedName {
        QualifiedName(self.0.to_ascii_lowercase().into())
    }
}

/// For whoever tells a client of it.
impl From<QualifiedName> for Arc<str> {
    fn from(name: QualifiedName) -> Arc<str> {
        Arc::from(&name)
    }
}

/// For whoever tells a client of it.
impl From<&QualifiedName> for Arc<str> {
    fn from(name: &QualifiedName) -> Arc<str> {
        match name.told() {
            told if told.len() == name.0.len() => name.0.clone(),
            told => told.into(),
        }
    }
}

/// A qualified name as clients of its namespace know it; what is none stays as it is.
pub fn told_name(name: &str) -> &str {
    split(name).map_or(name, |(_, told)| told)
}

/// A namespace's name, and an entity's in it.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(BEFORE)?.split_once(BEHIND)
}
