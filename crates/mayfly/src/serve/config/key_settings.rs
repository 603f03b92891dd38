//! `[[security.key]]` as written: where the values of keys stand, for whoever changes them.

use std::path::{Path, PathBuf};

use super::file::{Right, SecurityKey};

/// A key of the configuration, without its values.
#[derive(Clone, Debug)]
pub struct KeySetting {
    pub name: String,
    pub rights: Vec<&'static str>,
    /// As written; empty for everything.
    pub scope: String,
    pub primary: KeyPlace,
    pub secondary: KeyPlace,
}

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    Nowhere,
    /// In the configuration itself.
    Inline,
    File(PathBuf),
}

/// Those of a configuration file. The error is one line.
pub fn key_settings(config: &Path) -> Result<Vec<KeySetting>, String> {
    let (file, _) = super::read(Some(config))?;
    Ok(file.security.key.into_iter().map(KeySetting::of).collect())
}

impl KeySetting {
    fn of(written: SecurityKey) -> KeySetting {
        let place = |value: Option<String>, file: Option<PathBuf>| match (value, file) {
            (Some(_), _) => KeyPlace::Inline,
            (None, Some(path)) => KeyPlace::File(path),
            (None, None) => KeyPlace::Nowhere,
        };
        let SecurityKey { name, key, key_file, secondary_key, secondary_key_file, rights, scope } =
            written;
        KeySetting {
            name,
            rights: rights.into_iter().map(Right::name).collect(),
            scope,
            primary: place(key, key_file),
            secondary: place(secondary_key, secondary_key_file),
        }
    }
}
