//! The key that clients have where nodes ask for one: rotated as operators do it, with the broker's own
//! command.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use client::Client;

use super::command;
use crate::Error;

/// What it is called, in every node's configuration.
const NAME: &str = "clients";

/// A key whose two values stand in files that all nodes read.
pub struct ClientKey {
    /// The broker's binary.
    program: PathBuf,
    dir: PathBuf,
    /// What clients have.
    value: Arc<RwLock<String>>,
    /// Those that go on while it is rotated.
    clients: Mutex<Vec<Client>>,
}

/// What a client over AMQP logs in with, as it is by then.
#[derive(Clone)]
pub struct AmqpLogin {
    pub name: String,
    value: Arc<RwLock<String>>,
}

impl AmqpLogin {
    pub fn new(name: &str, value: String) -> AmqpLogin {
        AmqpLogin { name: name.to_owned(), value: Arc::new(RwLock::new(value)) }
    }

    pub fn value(&self) -> String {
        self.value.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientKey {
    /// Draws both values.
    pub fn make(program: &Path, dir: PathBuf) -> Result<ClientKey, Error> {
        fs::create_dir_all(&dir).map_err(Error::io(dir.display().to_string()))?;
        let key = ClientKey {
            program: program.to_owned(),
            dir,
            value: Arc::default(),
            clients: Mutex::default(),
        };
        for path in [key.primary(), key.secondary()] {
            let drawn = format!("{:032x}{:032x}\n", rand::random::<u128>(), rand::random::<u128>());
            let mut open = OpenOptions::new();
            let written = open.create_new(true).write(true).mode(0o600).open(&path);
            let written = written.and_then(|mut file: File| file.write_all(drawn.as_bytes()));
            written.map_err(Error::io(path.display().to_string()))?;
        }
        key.hand_out()?;
        Ok(key)
    }

    fn primary(&self) -> PathBuf {
        self.dir.join("clients.key")
    }

    fn secondary(&self) -> PathBuf {
        self.dir.join("clients-secondary.key")
    }

    /// What a node's configuration says of it.
    pub fn section(&self) -> String {
        format!(
            "[[security.key]]\nname = {NAME:?}\nkey_file = {:?}\nsecondary_key_file = {:?}\n\
             rights = [\"listen\", \"send\", \"manage\"]\n",
            self.primary(),
            self.secondary()
        )
    }

    /// Makes another value the primary, in the files.
    pub fn rotate(&self, config: &Path) -> Result<(), Error> {
        let mut rotate = Command::new(&self.program);
        rotate.args(["key", "rotate", NAME, "--config"]).arg(config);
        command::run(&mut rotate, &format!("mayfly key rotate {NAME}"))
    }

    /// Gives all clients the primary.
    pub fn hand_out(&self) -> Result<(), Error> {
        let path = self.primary();
        let text = fs::read_to_string(&path).map_err(Error::io(path.display().to_string()))?;
        let value = text.trim();
        value.clone_into(&mut self.value.write().unwrap_or_else(PoisonError::into_inner));
        for client in &*self.clients.lock().unwrap_or_else(PoisonError::into_inner) {
            client.replace_secret(value)?;
        }
        Ok(())
    }

    /// What a client over AMQP has.
    pub fn login(&self) -> AmqpLogin {
        AmqpLogin { name: NAME.to_owned(), value: self.value.clone() }
    }

    /// Gives this client every primary to come.
    pub fn follow(&self, client: &Client) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client.clone());
    }
}
