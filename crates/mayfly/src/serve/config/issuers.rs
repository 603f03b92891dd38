//! `[[security.issuer]]`: whose JSON web tokens are proofs, and what these are good for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::{Issuer, KeySet, Role, resource_path};
use domain::Namespace;
use openid::{Discovery, Place};

use super::file;
use super::security::rights;

/// What Azure's SDKs ask tokens for.
const AUDIENCE: &str = "https://servicebus.azure.net";
const CLAIM: &str = "roles";
const ISSUERS_MAX: usize = 10;
const ROLES_MAX: usize = 1_000;

/// An issuer, and where its keys come from.
#[derive(Clone, Debug, PartialEq)]
pub struct IssuerConfig {
    pub issuer: Arc<Issuer>,
    pub keys: IssuerKeys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuerKeys {
    /// It is asked.
    Discovery(Place),
    /// They are in a file, which is read again when it changes.
    File(PathBuf),
}

/// The error is one line.
pub fn issuers(written: &[file::SecurityIssuer]) -> Result<Vec<IssuerConfig>, String> {
    if written.len() > ISSUERS_MAX {
        return Err(format!("{} [[security.issuer]], allowed is {ISSUERS_MAX}", written.len()));
    }
    let mut all: Vec<IssuerConfig> = Vec::new();
    for written in written {
        let next = issuer(written)?;
        let name = &next.issuer.name;
        if all.iter().any(|known| known.issuer.name == *name) {
            return Err(format!("two [[security.issuer]] have the name '{name}'; keep one"));
        }
        all.push(next);
    }
    Ok(all)
}

fn issuer(written: &file::SecurityIssuer) -> Result<IssuerConfig, String> {
    let file::SecurityIssuer { url, name, ca_file, keys_file, audiences, claim, role } = written;
    let called = name.as_ref().or(url.as_ref()).cloned().unwrap_or_default();
    let told = |why: String| format!("[[security.issuer]] '{called}': {why}");
    let keys = match (url, keys_file, ca_file) {
        (Some(url), None, _) => {
            let is_named = name.is_some();
            let place = Place {
                url: url.clone(),
                authority: ca_file.clone(),
                name: (!is_named).then(|| url.clone()),
            };
            Discovery::new(&place).map_err(told)?;
            IssuerKeys::Discovery(place)
        }
        (None, Some(path), None) => IssuerKeys::File(path.clone()),
        (None, Some(_), Some(_)) => {
            return Err(told("ca_file is for url; leave it out beside keys_file".to_owned()));
        }
        (Some(_), Some(_), _) => {
            return Err(told("url and keys_file are both set; keep one".to_owned()));
        }
        (None, None, _) => {
            return Err(told(
                "set url, below which its OpenID configuration stands, or keys_file".to_owned(),
            ));
        }
    };
    if called.is_empty() {
        return Err(told("name is missing; set what its tokens have as iss".to_owned()));
    }
    let audiences = audiences.clone().unwrap_or_else(|| vec![AUDIENCE.to_owned()]);
    if audiences.is_empty() || audiences.iter().any(String::is_empty) {
        return Err(told(
            "audiences is empty, or has one that is; a token for anybody is none for this cluster"
                .to_owned(),
        ));
    }
    let claim = claim.clone().unwrap_or_else(|| CLAIM.to_owned());
    let roles = roles(role).map_err(told)?;
    let issuer = Arc::new(Issuer::new(&called, audiences, claim, roles));
    if let IssuerKeys::File(path) = &keys {
        issuer.replace_keys(read_keys(path).map_err(told)?);
    }
    Ok(IssuerConfig { issuer, keys })
}

/// The public keys in a file.
pub fn read_keys(path: &Path) -> Result<KeySet, String> {
    let told = |why: String| format!("keys_file '{}': {why}", path.display());
    let written = fs::read(path).map_err(|error| told(error.to_string()))?;
    KeySet::parse(&written).map_err(told)
}

/// Without any, Azure's own.
fn roles(written: &[file::SecurityRole]) -> Result<Vec<Role>, String> {
    if written.is_empty() {
        return Ok(Role::of_azure(Namespace::DEFAULT.as_str()).collect());
    }
    if written.len() > ROLES_MAX {
        return Err(format!("{} roles, allowed is {ROLES_MAX}", written.len()));
    }
    written.iter().map(role).collect()
}

fn role(written: &file::SecurityRole) -> Result<Role, String> {
    let file::SecurityRole { value, rights: given, entities, namespace } = written;
    let told = |why: String| format!("role '{value}': {why}");
    if value.is_empty() {
        return Err("a role has an empty value".to_owned());
    }
    let of_azure = Role::of_azure("").find(|role| role.value == *value).map(|role| role.rights);
    let rights = match (&given[..], of_azure) {
        ([], Some(rights)) => rights,
        ([], None) => {
            return Err(told("rights is missing; name some of listen, send and manage, or have a role of Azure as value".to_owned()));
        }
        (given, _) => rights(given),
    };
    if rights.operate || rights.monitor || rights.inject_faults {
        return Err(told("monitor, operate and inject-faults are rights on the cluster, which keys have, and no tokens".to_owned()));
    }
    let name = namespace.as_deref().unwrap_or(Namespace::DEFAULT.as_str());
    let namespace = Namespace::named(name).map_err(|refusal| told(refusal.to_string()))?;
    let entities: Vec<String> = entities.iter().map(|entity| resource_path(entity)).collect();
    if entities.iter().any(String::is_empty) {
        return Err(told("entities has an empty name; leave it out for all".to_owned()));
    }
    let (value, namespace) = (value.clone(), namespace.as_str().to_owned());
    Ok(Role { value, rights, entities, namespace })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    fn written(text: &str) -> Result<Vec<IssuerConfig>, String> {
        #[derive(serde::Deserialize)]
        struct Written {
            issuer: Vec<file::SecurityIssuer>,
        }
        let written: Written = toml::from_str(text).expect("it is TOML of that form");
        issuers(&written.issuer)
    }

    #[test]
    fn what_an_issuer_leaves_out_is_as_azure_has_it() {
        let found = written("[[issuer]]\nurl = \"https://h/t/v2.0\"").expect("it is right");
        let IssuerConfig { issuer, keys } = &found[0];
        assert_eq!((&*issuer.name, &*issuer.claim), ("https://h/t/v2.0", "roles"));
        assert_eq!(issuer.audiences, ["https://servicebus.azure.net"]);
        assert_eq!(issuer.roles, Role::of_azure("default").collect::<Vec<_>>());
        let place = Place {
            url: "https://h/t/v2.0".into(),
            authority: None,
            name: Some("https://h/t/v2.0".into()),
        };
        assert_eq!(*keys, IssuerKeys::Discovery(place));
        let text = "[[issuer]]\nurl = \"https://h\"\nname = \"https://other\"\n[[issuer.role]]
            value = \"Azure Service Bus Data Sender\"\nentities = [\"/Orders/\"]\nnamespace = \"Shop\"";
        let found = written(text).expect("it is right");
        let role = &found[0].issuer.roles[0];
        assert_eq!((&*role.entities[0], &*role.namespace), ("orders", "shop"));
        assert!(role.rights.send && !role.rights.listen);
    }

    /// Each row: an issuer, and a word of what is said.
    #[test]
    fn what_is_wrong_with_an_issuer_is_said() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("keys.json");
        fs::write(&path, KEYS).expect("a file");
        let file = format!("keys_file = \"{}\"", path.display());
        let role = |lines: &str| format!("url = \"https://h\"\n[[issuer.role]]\n{lines}");
        for (text, word) in [
            (format!("name = \"i\"\n{file}"), None),
            (role("value = \"x\"\nrights = [\"send\"]"), None),
            (file.clone(), Some("name is missing")),
            ("name = \"i\"".to_owned(), Some("set url")),
            (format!("url = \"https://h\"\n{file}"), Some("are both set")),
            (format!("name = \"i\"\nca_file = \"x\"\n{file}"), Some("ca_file is for url")),
            ("url = \"http://h\"".to_owned(), Some("over https")),
            ("url = \"https://h\"\nca_file = \"/nowhere\"".to_owned(), Some("ca_file '/nowhere'")),
            ("name = \"i\"\nkeys_file = \"/nowhere\"".to_owned(), Some("keys_file '/nowhere'")),
            ("url = \"https://h\"\naudiences = []".to_owned(), Some("audiences is empty")),
            (role("value = \"\"\nrights = [\"send\"]"), Some("an empty value")),
            (role("value = \"x\""), Some("role 'x': rights is missing")),
            (role("value = \"x\"\nrights = [\"operate\"]"), Some("which keys have")),
            (role("value = \"x\"\nrights = [\"send\"]\nnamespace = \"a b\""), Some("role 'x'")),
            (role("value = \"x\"\nrights = [\"send\"]\nentities = [\"/\"]"), Some("an empty name")),
        ] {
            let found = written(&format!("[[issuer]]\n{text}"));
            match (word, found) {
                (None, found) => assert!(found.is_ok(), "{text}: {found:?}"),
                (Some(word), Err(told)) => assert!(told.contains(word), "{text}: {told}"),
                (Some(_), Ok(found)) => panic!("{text}: {found:?}"),
            }
        }
        let twice = "[[issuer]]\nurl = \"https://h\"\n[[issuer]]\nurl = \"https://h\"";
        assert!(written(twice).is_err_and(|told| told.contains("two [[security.issuer]]")));
    }
}
