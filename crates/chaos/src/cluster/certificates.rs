//! The certificates that nodes know each other by: made and replaced as operators do it, with the
//! broker's own commands.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::command;
use crate::Error;

/// A directory of certificates, which all nodes read theirs from.
pub struct Certificates {
    /// The broker's binary.
    program: PathBuf,
    dir: PathBuf,
}

impl Certificates {
    /// Makes the authority.
    pub fn make(program: &Path, dir: PathBuf) -> Result<Certificates, Error> {
        let certificates = Certificates { program: program.to_owned(), dir };
        certificates.run(&["authority"])?;
        Ok(certificates)
    }

    /// Makes the certificate of a node that is reached by this host, in the place of one it may have.
    pub fn issue(&self, node: u64, host: &str) -> Result<(), Error> {
        self.run(&["node", &node.to_string(), host, "--overwrite"])
    }

    /// Makes another authority, which signs from now on; the former is trusted as well.
    pub fn add_authority(&self) -> Result<(), Error> {
        self.run(&["authority", "--add"])
    }

    /// Trusts the authority that signs alone.
    pub fn retire_authority(&self) -> Result<(), Error> {
        self.run(&["authority", "--retire"])
    }

    /// What a node's configuration says of them.
    pub fn section(&self, node: u64) -> String {
        let path = |name: &str| self.dir.join(name);
        let (certificate, key) = (format!("node-{node}.pem"), format!("node-{node}.key"));
        format!(
            "[tls.peer]\nauthority = {:?}\ncertificate = {:?}\nkey = {:?}\n",
            path("authority.pem"),
            path(&certificate),
            path(&key)
        )
    }

    fn run(&self, words: &[&str]) -> Result<(), Error> {
        let mut cert = Command::new(&self.program);
        cert.arg("cert").args(words).arg("--dir").arg(&self.dir);
        command::run(&mut cert, &format!("mayfly cert {}", words.join(" ")))
    }
}
