//! Who somebody is, once it is proven.

use std::fmt;
use std::sync::Arc;

/// Whom a proof shows somebody to be: what answers, the log and the audit call them. It holds names
/// only, and no part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// No proof was asked for.
    Anyone,
    /// Who has a key of the node's configuration.
    Key { name: Arc<str> },
    /// Who has a key of a namespace's own rule (NS-7).
    NamespaceRule { namespace: Arc<str>, name: Arc<str> },
    /// Who has a key of an entity's own rule (ENT-12); the entity by its name in all the cluster.
    Rule { entity: Arc<str>, name: Arc<str> },
    /// Who showed a certificate of this name, which stands for a key of the node's configuration.
    Certificate { subject: Arc<str>, key: Arc<str> },
    /// Whom an issuer gave a token to.
    WebToken { issuer: Arc<str>, subject: Arc<str> },
    /// A node that joins, by the id of its token.
    JoinToken { id: Arc<str> },
}

impl Principal {
    /// The key whose rights these are, or whom an issuer's token names.
    pub fn key_name(&self) -> Option<&str> {
        match self {
            Principal::Anyone | Principal::JoinToken { .. } => None,
            Principal::Key { name: key }
            | Principal::NamespaceRule { name: key, .. }
            | Principal::Rule { name: key, .. }
            | Principal::Certificate { key, .. } => Some(key),
            Principal::WebToken { subject, .. } => Some(subject),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Anyone => write!(out, "anyone"),
            Principal::Key { name } => write!(out, "key '{name}'"),
            Principal::NamespaceRule { namespace, name } => {
                write!(out, "key '{name}' of namespace '{namespace}'")
            }
            Principal::Rule { entity, name } => {
                // As clients of its namespace know it: no name holds a colon (ENT-1).
                let told = entity.rsplit_once(':').map_or(&**entity, |(_, told)| told);
                write!(out, "key '{name}' of '{told}'")
            }
            Principal::Certificate { subject, key } => {
                write!(out, "certificate '{subject}' (key '{key}')")
            }
            Principal::WebToken { issuer, subject } => write!(out, "'{subject}' of '{issuer}'"),
            Principal::JoinToken { id } => write!(out, "join token '{id}'"),
        }
    }
}
