//! Namespaces beside the default one (NS): which there are, and with which keys. Their entities are in the directory
//! like all others, by qualified names.

use crate::machine::members::Members;
use crate::machine::restoration::check_not_restoring;
use crate::read::DIRECTORY_END;
use crate::validate::InProfile;
use crate::{
    AuthorizationRule, CatalogOutcome, DEFAULT_NAMESPACE, Key, NAMESPACES_MAX, Namespace,
    NamespaceRow, NamespaceState, Outcome, Profile, Refusal, Row, Rows, Timestamp, namespace_name,
    split_subscription_path, told_name, validate,
};

const WHAT: &str = "namespace";
/// Names of entities in a refusal.
const NAMED_MAX: usize = 5;

fn refuse(why: String) -> Result<Outcome, Refusal> {
    Err(Refusal::Argument { what: WHAT, why })
}

fn told(row: NamespaceRow) -> Result<Outcome, Refusal> {
    Ok(Outcome::Catalog(CatalogOutcome::Namespace(row)))
}

pub(super) struct Namespaces<'s, R> {
    pub at: Timestamp,
    pub members: Members<'s, R>,
}

impl<R: Rows> Namespaces<'_, R> {
    /// Whether something may be created in a namespace.
    pub fn check_open(&mut self, namespace: &Namespace) -> Result<(), Refusal> {
        if namespace.is_default() {
            return Ok(());
        }
        let why = match self.row(namespace.as_str()) {
            Some(row) if row.is_ready() => return Ok(()),
            Some(_) => format!("'{namespace}' is being deleted"),
            None => format!("there is none called '{namespace}'; create it first"),
        };
        Err(Refusal::Argument { what: WHAT, why })
    }

    pub fn create(
        &mut self,
        request: u64,
        name: String,
        profile: Profile,
        authorization_rules: Vec<AuthorizationRule>,
    ) -> Result<Outcome, Refusal> {
        self.members.formed()?;
        check_not_restoring(self.members.view)?;
        namespace_name(&name)?;
        validate::authorization_rules(&authorization_rules)?;
        match self.row(&name) {
            Some(row) if row.request == request => return told(row),
            Some(row) if row.is_ready() => return refuse(format!("there is one called '{name}'")),
            Some(_) => {
                return refuse(format!("one called '{name}' is being deleted; try again later"));
            }
            None => (),
        }
        let (from, to) = (Key::Namespace(String::new()), Key::Namespace(DIRECTORY_END.to_string()));
        let keys = self.members.view.keys(&from, &to, NAMESPACES_MAX + 1);
        let default = Key::Namespace(DEFAULT_NAMESPACE.to_owned());
        let used = keys.iter().filter(|key| **key != default).count();
        if used >= NAMESPACES_MAX {
            let (what, max) = ("the cluster (namespaces)", NAMESPACES_MAX as u64);
            return Err(Refusal::QuotaExceeded { what, used: used as u64, max }); // QUOTA-12.
        }
        let (at, state) = (self.at, NamespaceState::Ready);
        let (created_at, modified_at) = (at, at);
        self.put(NamespaceRow {
            name,
            request,
            created_at,
            modified_at,
            authorization_rules,
            state,
            profile,
            next_profile: None,
        })
    }

    pub fn update(
        &mut self,
        request: u64,
        name: &str,
        authorization_rules: Vec<AuthorizationRule>,
    ) -> Result<Outcome, Refusal> {
        validate::authorization_rules(&authorization_rules)?;
        let row = self.known(name, request)?;
        if row.authorization_rules == authorization_rules {
            return told(row);
        }
        self.put(NamespaceRow { authorization_rules, modified_at: self.at, ..row })
    }

    /// What a namespace keeps to.
    pub fn profiles(&mut self, namespace: &Namespace) -> Vec<Profile> {
        let row = self.row(namespace.as_str());
        row.map_or_else(|| vec![Profile::default()], |row| row.profiles().collect())
    }

    /// QUOTA-40. `entities`: queues and topics in it.
    pub fn change_profile(
        &mut self,
        request: u64,
        name: &str,
        profile: Profile,
        entities: u64,
    ) -> Result<Outcome, Refusal> {
        self.members.formed()?;
        check_not_restoring(self.members.view)?;
        let namespace = Namespace::named(name)?;
        let row = match namespace.is_default() {
            true => self.default_row(),
            false => self.known(name, request)?,
        };
        if !row.is_ready() {
            return refuse(format!("'{name}' is being deleted"));
        }
        InProfile { profile, namespace: &namespace }.takes_in_all(entities)?;
        let next_profile = Some(profile).filter(|next| *next != row.profile);
        self.put(NamespaceRow { next_profile, modified_at: self.at, ..row })
    }

    pub fn settle_profile(
        &mut self,
        request: u64,
        name: &str,
        profile: Profile,
        fits: bool,
    ) -> Result<Outcome, Refusal> {
        let row = self.known(name, request)?;
        if row.next_profile != Some(profile) {
            return told(row);
        }
        let profile = if fits { profile } else { row.profile };
        self.put(NamespaceRow { profile, next_profile: None, modified_at: self.at, ..row })
    }

    fn default_row(&mut self) -> NamespaceRow {
        let at = self.at;
        self.row(DEFAULT_NAMESPACE).unwrap_or_else(|| NamespaceRow {
            name: DEFAULT_NAMESPACE.to_owned(),
            request: 0,
            created_at: at,
            modified_at: at,
            authorization_rules: Vec::new(),
            state: NamespaceState::Ready,
            profile: Profile::default(),
            next_profile: None,
        })
    }

    /// NS-6.
    pub fn delete(&mut self, request: u64, name: &str, force: bool) -> Result<Outcome, Refusal> {
        let row = self.known(name, request)?;
        if !row.is_ready() {
            return told(row);
        }
        let entities = self.entities(name);
        if !force && !entities.is_empty() {
            let named = entities.iter().filter(|name| split_subscription_path(name).is_none());
            let shown: Vec<&str> = named.take(NAMED_MAX).map(String::as_str).collect();
            let shown = shown.join("', '");
            let more = if entities.len() > NAMED_MAX { " and more" } else { "" };
            return refuse(format!(
                "'{name}' has entities, which would be deleted with all their messages: '{shown}'{more}; say \
                 so with --force, or delete them first"
            ));
        }
        self.put(NamespaceRow { state: NamespaceState::Deleting, ..row })
    }

    pub fn deleted(&mut self, request: u64, name: &str) -> Result<Outcome, Refusal> {
        let Ok(row) = self.known(name, request) else { return Ok(Outcome::Done) };
        if row.is_ready() {
            return Ok(Outcome::Done);
        }
        if let Some(entity) = self.entities(name).first() {
            return refuse(format!("'{name}' still has '{entity}'; try again later"));
        }
        self.members.view.delete(Key::Namespace(row.name));
        Ok(Outcome::Done)
    }

    pub fn restore(&mut self, rows: Vec<NamespaceRow>) -> Result<Outcome, Refusal> {
        for row in rows.iter().filter(|row| row.name != DEFAULT_NAMESPACE) {
            namespace_name(&row.name)?;
        }
        for row in rows {
            if self.row(&row.name).is_none() {
                let key = Key::Namespace(row.name.clone());
                self.members.view.insert(key, Row::Namespace(Box::new(row)));
            }
        }
        Ok(Outcome::Done)
    }

    /// Some of what is in it, by the names that clients know.
    fn entities(&mut self, name: &str) -> Vec<String> {
        let Ok(namespace) = Namespace::named(name) else { return Vec::new() };
        let prefix = namespace.prefix();
        let to = Key::Directory(format!("{prefix}{DIRECTORY_END}"));
        let keys = self.members.view.keys(&Key::Directory(prefix), &to, NAMED_MAX + 1);
        let named = keys.into_iter().filter_map(|key| match key {
            Key::Directory(name) => Some(told_name(&name).to_owned()),
            _ => None,
        });
        named.collect()
    }

    /// The one that a request created.
    fn known(&mut self, name: &str, request: u64) -> Result<NamespaceRow, Refusal> {
        let row = self.row(name).filter(|row| row.request == request);
        row.ok_or_else(|| {
            let why = format!("there is none called '{name}' any more");
            Refusal::Argument { what: WHAT, why }
        })
    }

    fn row(&mut self, name: &str) -> Option<NamespaceRow> {
        match self.members.view.get(&Key::Namespace(name.to_owned())) {
            Some(Row::Namespace(row)) => Some(*row),
            _ => None,
        }
    }

    fn put(&mut self, row: NamespaceRow) -> Result<Outcome, Refusal> {
        let key = Key::Namespace(row.name.clone());
        self.members.view.put(key, Row::Namespace(Box::new(row.clone())));
        told(row)
    }
}
