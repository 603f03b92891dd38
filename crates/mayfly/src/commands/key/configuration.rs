//! Keys of a node's configuration, and the files that hold them.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use auth::{Key, resource_path};

use super::Row;
use crate::files;
use crate::serve::config::{KeyPlace, KeySetting, key_settings};
use crate::terminal;

pub fn list(config: &Path) -> anyhow::Result<Vec<Row>> {
    let row = |key: KeySetting| Row {
        name: key.name,
        rights: key.rights,
        scope: resource_path(&key.scope),
        primary: kept(&key.primary),
        secondary: kept(&key.secondary),
    };
    Ok(key_settings(config).map_err(terminal::usage)?.into_iter().map(row).collect())
}

fn kept(place: &KeyPlace) -> String {
    match place {
        KeyPlace::Nowhere => "none".to_owned(),
        KeyPlace::Inline => "in the configuration".to_owned(),
        KeyPlace::File(path) => path.display().to_string(),
    }
}

/// Where both values of a key stand.
#[derive(Debug, PartialEq, Eq)]
struct KeyFiles {
    primary: PathBuf,
    secondary: PathBuf,
}

/// What to say when it is done.
pub fn rotate(config: &Path, name: &str, scope: Option<&str>) -> anyhow::Result<String> {
    let keys = key_settings(config).map_err(terminal::usage)?;
    let KeyFiles { primary, secondary } =
        pair(keys, name, scope, config).map_err(|told| terminal::usage(told.to_string()))?;
    let old = files::read_private(&primary).map_err(|told| anyhow!("key_file: {told}"))?;
    let old = old.trim();
    if old.is_empty() {
        bail!(
            "key_file: '{}' is empty; a rotation would leave nothing that clients have",
            primary.display()
        );
    }
    let owner = |path: &Path| -> anyhow::Result<Metadata> {
        fs::metadata(path).with_context(|| format!("cannot read '{}'", path.display()))
    };
    let of_primary = owner(&primary)?;
    let of_secondary = if secondary.exists() { owner(&secondary)? } else { of_primary.clone() };
    // In this order: whenever a node looks, or this ends, what clients have is one of the two.
    files::replace_private(&secondary, &format!("{old}\n"), &of_secondary)?;
    files::replace_private(&primary, &format!("{}\n", service::draw_key()), &of_primary)?;
    Ok(format!(
        "key '{name}' has a new primary in '{}'; the one it had is in '{}' now, and counts until the next rotation. \
         Nodes here read them within 5 seconds, or on SIGHUP; copy them to all others, the secondary first, \
         before clients have the new one",
        primary.display(),
        secondary.display()
    ))
}

/// The files of the key of that name. The error is one line, and says what to do instead.
fn pair(
    keys: Vec<KeySetting>,
    name: &str,
    scope: Option<&str>,
    config: &Path,
) -> anyhow::Result<KeyFiles> {
    let config = config.display();
    if name == Key::ROOT {
        bail!(
            "'{name}' is the cluster's secret, which nodes know each other by as well: stop all nodes, change it on \
             each, and start them"
        );
    }
    let wanted = scope.map(resource_path);
    let is_wanted = |key: &KeySetting| {
        key.name == name
            && wanted.as_ref().is_none_or(|wanted| resource_path(&key.scope) == *wanted)
    };
    let mut found: Vec<KeySetting> = keys.into_iter().filter(is_wanted).collect();
    let key = match (found.pop(), found.is_empty()) {
        (None, _) => {
            bail!("{config} has no [[security.key]] '{name}'; mayfly key list shows those it has")
        }
        (Some(_), false) => bail!("{config} has several [[security.key]] '{name}'; give --scope"),
        (Some(key), true) => key,
    };
    match (key.primary, key.secondary) {
        (KeyPlace::File(primary), KeyPlace::File(secondary)) if primary == secondary => {
            bail!(
                "key_file and secondary_key_file of '{name}' in {config} are one file; give it two"
            )
        }
        (KeyPlace::File(primary), KeyPlace::File(secondary)) => Ok(KeyFiles { primary, secondary }),
        (KeyPlace::File(_), KeyPlace::Nowhere) => bail!(
            "'{name}' in {config} has no place for the old key, which clients have: add secondary_key_file = \"…\""
        ),
        (KeyPlace::File(_), KeyPlace::Inline) => bail!(
            "the secondary key of '{name}' stands in {config} itself: put it into a file that only its owner may \
             read, and name that as secondary_key_file"
        ),
        (KeyPlace::Inline | KeyPlace::Nowhere, _) => bail!(
            "'{name}' stands in {config} itself: make its key the secondary_key there, and key what openssl rand \
             -base64 32 says; nodes read it within 5 seconds. With key_file and secondary_key_file this command does it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn written(dir: &Path, keys: &str) -> PathBuf {
        let config = dir.join("mayfly.toml");
        fs::write(&config, keys).expect("written");
        config
    }

    fn key(name: &str, values: &str) -> String {
        format!("[[security.key]]\nname = {name:?}\nrights = [\"send\"]\n{values}\n")
    }

    /// Each row: keys, which of them is rotated, and what is told instead.
    #[test]
    fn what_cannot_be_rotated_is_told_with_what_to_do() {
        let both = "key_file = \"/a\"\nsecondary_key_file = \"/b\"";
        for (keys, name, scope, told) in [
            (key("w", "key = \"k\""), "w", None, "make its key the secondary_key there"),
            (key("w", "key_file = \"/a\""), "w", None, "add secondary_key_file"),
            (
                key("w", "key_file = \"/a\"\nsecondary_key = \"k\""),
                "w",
                None,
                "name that as secondary_key_file",
            ),
            (
                key("w", "key_file = \"/a\"\nsecondary_key_file = \"/a\""),
                "w",
                None,
                "are one file; give it two",
            ),
            (key("w", both), "v", None, "has no [[security.key]] 'v'"),
            (key("w", both), "w", Some("orders"), "has no [[security.key]] 'w'"),
            (
                key("w", both) + &key("w", &format!("scope = \"orders\"\n{both}")),
                "w",
                None,
                "give --scope",
            ),
            (key("w", both), Key::ROOT, None, "is the cluster's secret"),
            (key("w", both), "w", None, "key_file: cannot read '/a'"),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            let config = written(dir.path(), &keys);
            let refused = rotate(&config, name, scope).expect_err(&keys).to_string();
            assert!(refused.contains(told) && !refused.contains('\n'), "{refused}");
        }
    }

    /// A second file that is not there yet is made like the first; both go on being their owner's.
    #[test]
    fn ent_12_the_old_key_is_the_secondary_until_the_next_rotation() {
        let dir = tempfile::tempdir().expect("a directory");
        let (primary, secondary) = (dir.path().join("w.key"), dir.path().join("w.old"));
        let values = format!("key_file = {primary:?}\nsecondary_key_file = {secondary:?}");
        let config = written(dir.path(), &(key("v", "key = \"k\"") + &key("w", &values)));
        let write = |path: &Path, text: &str, mode| {
            fs::write(path, text).expect("written");
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
        };
        let read = |path: &Path| fs::read_to_string(path).expect("a file").trim().to_owned();
        let mode = |path: &Path| path.metadata().expect("a file").permissions().mode() & 0o777;
        write(&primary, "the-first-key\n", 0o640);
        let mut olds = vec!["the-first-key".to_owned()];
        for _ in 0..2 {
            let told = rotate(&config, "w", None).expect("rotated");
            let new = read(&primary);
            assert!(!told.contains(&new) && !told.contains(&olds[0]), "{told}");
            assert_eq!(read(&secondary), *olds.last().expect("one"));
            assert!(!olds.contains(&new) && new.len() == 44, "32 bytes as base64");
            assert_eq!((mode(&primary), mode(&secondary)), (0o640, 0o640));
            olds.push(new);
        }
        write(&primary, "the-first-key\n", 0o644);
        let refused = rotate(&config, "w", None).expect_err("open to everyone").to_string();
        assert!(refused.contains("run chmod o="), "{refused}");
        write(&primary, "\n", 0o600);
        assert!(rotate(&config, "w", None).is_err());
        assert_eq!(read(&secondary), olds[1], "what is refused changes nothing");
    }
}
