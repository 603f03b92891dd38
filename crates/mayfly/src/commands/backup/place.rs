//! Where backups are, on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use backup::{BackupName, Key, Location, Repository};

use crate::{files, terminal};

#[derive(Debug, clap::Args)]
pub struct PlaceArgs {
    /// A directory, or s3://bucket/prefix
    #[arg(value_name = "PLACE")]
    pub location: Location,
    /// The file of the key that the backups there are encrypted with
    #[arg(long, env = "MAYFLY_BACKUP_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl PlaceArgs {
    /// The repository that is there.
    pub async fn open(&self) -> anyhow::Result<Repository> {
        Ok(Repository::open(&self.location, self.key()?.as_ref()).await?)
    }

    /// The key that was given.
    pub fn key(&self) -> anyhow::Result<Option<Key>> {
        let Some(path) = &self.key_file else { return Ok(None) };
        let text = files::read_private(path);
        let text = text.map_err(|told| terminal::usage(format!("--key-file: {told}")))?;
        let wrong = |error| terminal::usage(format!("--key-file: '{}' is {error}", path.display()));
        Key::parse(&text).map(Some).map_err(wrong)
    }
}

/// A backup by its name, or `latest`, which has none.
#[derive(Clone, Debug)]
pub struct Which(pub Option<BackupName>);

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Which, String> {
        match text {
            "latest" => Ok(Which(None)),
            name => name.parse().map(|name| Which(Some(name))),
        }
    }
}
