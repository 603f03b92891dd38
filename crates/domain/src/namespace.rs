//! Namespaces: a cluster holds several, each with entities and keys of its own. What is in one has a name that
//! no client of another can say: the edges put clients' names into their namespace, and all else works on what comes
//! of that without knowing.

use std::fmt;
use std::sync::Arc;

use crate::qualified_name::{BEFORE, BEHIND, split};
use crate::{AuthorizationRule, NAME_CHARS_MAX, Profile, QualifiedName, Refusal, Timestamp};

/// Of a cluster, beside the default one (QUOTA-12).
pub const NAMESPACES_MAX: usize = 1_000;
/// What the namespace is called that is there without having been created (NS-1).
pub const DEFAULT_NAMESPACE: &str = "default";

/// Which of the cluster's namespaces. It says nothing of whether it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Option<Arc<str>>);

impl Namespace {
    /// The one that is always there, whose names are as clients say them.
    pub const DEFAULT: Namespace = Namespace(None);

    /// The one of that name, in whatever case.
    ///
    /// # Errors
    /// NS-2: there can be none.
    pub fn named(name: &str) -> Result<Namespace, Refusal> {
        let name = name.to_ascii_lowercase();
        if name == DEFAULT_NAMESPACE {
            return Ok(Namespace::DEFAULT);
        }
        namespace_name(&name)?;
        Ok(Namespace(Some(name.into())))
    }

    pub fn is_default(&self) -> bool {
        self.0.is_none()
    }

    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// The name by which the cluster knows what a client calls so.
    ///
    /// # Errors
    /// ERR-1: nothing can have that name, in no namespace.
    pub fn qualify(&self, name: &str) -> Result<QualifiedName, Refusal> {
        if name.contains([BEFORE, BEHIND]) {
            return Err(Refusal::EntityNotFound { name: name.to_owned() });
        }
        // Asked with every request.
        match self.is_default() {
            true => Ok(QualifiedName::known(name)),
            false => Ok(QualifiedName::known(&format!("{}{name}", self.prefix()))),
        }
    }

    /// What all qualified names of this namespace begin with; nothing in the default one.
    pub fn prefix(&self) -> String {
        self.0.as_deref().map_or_else(String::new, |name| format!("{BEFORE}{name}{BEHIND}"))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The namespace of a qualified name.
pub fn namespace_of(name: &str) -> Namespace {
    Namespace(split(name).map(|(namespace, _)| namespace.to_ascii_lowercase().into()))
}

/// NS-2: what stands in a host name, and is no address's beginning.
pub fn namespace_name(name: &str) -> Result<(), Refusal> {
    let refuse = |why: &str| Err(Refusal::Argument { what: "namespace", why: why.to_owned() });
    let is_within = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !(1..=NAME_CHARS_MAX).contains(&name.len()) {
        return refuse("its name has less than 1 or more than 50 characters");
    }
    if !name.chars().all(is_within) {
        return refuse("its name has other characters than letters, digits and '-'");
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || name.ends_with('-') {
        return refuse("its name begins with no letter, or ends with '-'");
    }
    match name {
        DEFAULT_NAMESPACE => refuse("the namespace 'default' is always there"),
        "localhost" => refuse("'localhost' stands for the default namespace"),
        _ => Ok(()),
    }
}

/// A namespace, by its name. The default one has a row once its profile was changed, which says nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceRow {
    /// In lower case.
    pub name: String,
    /// Drawn by who asked for it: it tells two of one name apart, and a repeat of the request is known by it.
    pub request: u64,
    pub created_at: Timestamp,
    /// When its rules last changed.
    pub modified_at: Timestamp,
    /// At most [`AUTHORIZATION_RULES_MAX`](crate::AUTHORIZATION_RULES_MAX) (NS-7).
    pub authorization_rules: Vec<AuthorizationRule>,
    pub state: NamespaceState,
    pub profile: Profile,
    /// What it shall become once all that is in it was found to fit: until then both are kept to.
    pub next_profile: Option<Profile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    Ready,
    /// Nothing is created in it any more, and it goes once its entities are gone.
    Deleting,
}

impl NamespaceRow {
    pub fn is_ready(&self) -> bool {
        self.state == NamespaceState::Ready
    }

    /// What all that is created in it, and each change, has to keep to.
    pub fn profiles(&self) -> impl Iterator<Item = Profile> {
        [Some(self.profile), self.next_profile].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ns_2_a_namespace_is_called_what_a_host_may_begin_with() {
        for name in ["orders", "a", "team-7", &"x".repeat(50)] {
            assert_eq!(namespace_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(51);
        for name in [
            "",
            "127",
            "7up",
            "-a",
            "a-",
            "a.b",
            "a_b",
            "Orders",
            "ä",
            "default",
            "localhost",
            &long,
        ] {
            assert!(namespace_name(name).is_err(), "{name}");
        }
        assert_eq!(Namespace::named("Default"), Ok(Namespace::DEFAULT));
        assert_eq!(Namespace::named("Orders").map(|it| it.prefix()), Ok("+orders:".to_owned()));
    }

    #[test]
    fn ns_3_what_is_in_one_namespace_has_no_name_in_another() {
        let orders = Namespace::named("orders").expect("a name");
        let qualified = orders.qualify("Q/Subscriptions/s").expect("a name");
        assert_eq!(qualified.as_str(), "+orders:Q/Subscriptions/s");
        assert_eq!(qualified.told(), "Q/Subscriptions/s");
        assert_eq!(namespace_of(qualified.as_str()), orders);
        let own = Namespace::DEFAULT.qualify("Q").expect("a name");
        assert_eq!((own.as_str(), own.told()), ("Q", "Q"));
        assert_eq!(namespace_of("Q"), Namespace::DEFAULT);
        for name in ["+orders:q", "orders:q", "+orders", ":q", "+"] {
            for namespace in [&orders, &Namespace::DEFAULT] {
                assert!(namespace.qualify(name).is_err(), "{name} in {namespace}");
            }
        }
    }
}
