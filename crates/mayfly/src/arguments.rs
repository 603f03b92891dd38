//! What this process was started with, as everybody on the machine may read it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const FLAG: &str = "--secret";
/// Of every command that has the flag; only the process's user reads its environment.
const VARIABLE: &str = "MAYFLY_SECRET";

/// A secret that is given as a flag stands in the process's title for everybody: this process begins anew
/// with it in its environment. Whoever cannot goes on as he is.
pub fn hide_secret() {
    let mut given = env::args_os();
    let name = given.next();
    let Some((secret, others)) = without_secret(given.collect()) else { return };
    let Ok(program) = env::current_exe() else { return };
    let mut again = Command::new(program);
    if let Some(name) = name {
        again.arg0(name);
    }
    let error = again.args(others).env(VARIABLE, secret).exec();
    // Nothing is logged yet, and what was asked for can be done.
    drop(error);
}

/// The secret that is among the arguments, and the others.
fn without_secret(given: Vec<OsString>) -> Option<(OsString, Vec<OsString>)> {
    let (mut secret, mut others) = (None, Vec::new());
    let mut given = given.into_iter();
    while let Some(argument) = given.next() {
        let bytes = argument.as_bytes();
        let assigned = bytes.strip_prefix(FLAG.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        match assigned {
            Some(value) if secret.is_none() => secret = Some(OsString::from_vec(value.to_vec())),
            None if argument == FLAG && secret.is_none() => secret = Some(given.next()?),
            // Given twice: how that is answered is the command's.
            _ if assigned.is_some() || argument == FLAG => return None,
            _ => {
                let is_last = argument == OsStr::new("--");
                others.push(argument);
                if is_last {
                    others.extend(given.by_ref());
                }
            }
        }
    }
    secret.map(|secret| (secret, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: arguments; the secret, and the arguments without it.
    #[test]
    fn a_secret_is_told_from_other_arguments() {
        for (given, expected) in [
            ("serve --secret s --node 1", Some(("s", "serve --node 1"))),
            ("serve --secret=s=t", Some(("s=t", "serve"))),
            ("serve --secret-file f", None),
            ("serve --node 1", None),
            ("send q -- --secret s", None),
            ("send q --secret s -- --secret t", Some(("s", "send q -- --secret t"))),
            ("serve --secret", None),
            ("serve --secret s --secret t", None),
            ("serve --secret s --secret=t", None),
        ] {
            let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            let expected = expected.map(|(secret, others)| (secret.into(), words(others)));
            assert_eq!(without_secret(words(given)), expected, "{given}");
        }
    }
}
