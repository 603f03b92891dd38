//! The broker's own commands, as operators run them.

use std::process::{Command, Stdio};

use crate::Error;

/// Runs one to its end, with no secret in its environment. `told`: what it is called in an error.
pub fn run(command: &mut Command, told: &str) -> Result<(), Error> {
    let command = command.env_remove("MAYFLY_SECRET").stdin(Stdio::null());
    let made = command.output().map_err(Error::io(told))?;
    match made.status.success() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&made.stderr);
            Err(Error::Cluster(format!("{told}: {}", why.trim())))
        }
    }
}
