//! Backups of a cluster that was started here, as an operator makes them, and its end.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Cluster, command};
use crate::Error;

/// Where the backups are, and how a cluster is reached that is backed up, or restored.
#[derive(Clone)]
pub struct BackupPlace {
    program: PathBuf,
    place: PathBuf,
    addresses: String,
    secret_file: Option<PathBuf>,
}

impl BackupPlace {
    /// Runs one of `mayfly backup` to its end; blocks.
    fn run(&self, what: &str) -> Result<(), Error> {
        let mut backup = Command::new(&self.program);
        backup.args(["backup", what]).arg(&self.place).args(["--connect", &self.addresses]);
        if let Some(path) = &self.secret_file {
            backup.arg("--secret-file").arg(path);
        }
        command::run(&mut backup, &format!("mayfly backup {what}"))
    }

    /// A backup more; blocks until it is complete.
    pub fn create(&self) -> Result<(), Error> {
        self.run("create")
    }

    /// Brings the newest backup into a cluster that has nothing; blocks.
    pub fn restore(&self) -> Result<(), Error> {
        self.run("restore")
    }
}

impl Cluster {
    /// A place for backups, which goes with the cluster.
    pub fn backup_place(&self) -> Result<BackupPlace, Error> {
        let not_ours = || Error::Wrong("somebody else's cluster is not backed up".to_owned());
        let own = self.own.as_ref().ok_or_else(not_ours)?;
        let dir = own.dir.path();
        let secret_file = match &self.login.secret {
            Some(secret) => Some(written(&dir.join("operator.secret"), secret)?),
            None => None,
        };
        Ok(BackupPlace {
            program: own.settings.program.clone(),
            place: dir.join("backups"),
            addresses: self.direct.values().map(String::as_str).collect::<Vec<_>>().join(","),
            secret_file,
        })
    }

    /// Kills every node, with all that is on its disk, and founds the cluster again, empty.
    pub async fn found_again(&mut self) -> Result<(), Error> {
        for process in self.nodes.values_mut() {
            process.kill();
        }
        for process in self.nodes.values_mut() {
            let data = process.data();
            empty(data).map_err(Error::io(data.display().to_string()))?;
            process.start(&[])?;
        }
        self.harmed = None;
        self.wait_ready().await
    }
}

fn written(path: &Path, secret: &str) -> Result<PathBuf, Error> {
    let failed = Error::io(path.display().to_string());
    let opened = fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(path);
    opened.and_then(|mut file| file.write_all(secret.as_bytes())).map_err(failed)?;
    Ok(path.to_owned())
}

/// Removes everything in a directory. It stays itself: it may be a disk of its own.
pub fn empty(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
    }
    Ok(())
}
