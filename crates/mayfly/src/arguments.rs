//! What this process was started with, as everybody on the machine may read it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Flags that hold something secret, and the variable of each, of every command that has the flag: only the
/// process's user reads its environment.
const SECRETS: [(&str, &str); 4] = [
    ("--secret", "MAYFLY_SECRET"),
    ("--token", "MAYFLY_JOIN_TOKEN"),
    ("--otlp-headers", "OTEL_EXPORTER_OTLP_HEADERS"),
    ("--otlp-metrics-headers", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"),
];

/// A secret that is given as a flag stands in the process's title for everybody: this process begins anew
/// with it in its environment. Whoever cannot goes on as he is.
pub fn hide_secrets() {
    let mut given = env::args_os();
    let name = given.next();
    let Some((secrets, others)) = without_secrets(given.collect()) else { return };
    let Ok(program) = env::current_exe() else { return };
    let mut again = Command::new(program);
    if let Some(name) = name {
        again.arg0(name);
    }
    let error = again.args(others).envs(secrets).exec();
    // Nothing is logged yet, and what was asked for can be done.
    drop(error);
}

/// The secrets that are among the arguments, by their variables, and the others.
type Parted = (Vec<(&'static str, OsString)>, Vec<OsString>);

/// `None`: there is none, or one is given twice, which is for the command to answer.
fn without_secrets(given: Vec<OsString>) -> Option<Parted> {
    let (mut secrets, mut others): Parted = Default::default();
    let mut given = given.into_iter();
    while let Some(argument) = given.next() {
        let Some((variable, assigned)) = secret_flag(&argument) else {
            let is_last = argument == OsStr::new("--");
            others.push(argument);
            if is_last {
                others.extend(given.by_ref());
            }
            continue;
        };
        if secrets.iter().any(|(known, _)| *known == variable) {
            return None;
        }
        secrets.push((variable, assigned.or_else(|| given.next())?));
    }
    (!secrets.is_empty()).then_some((secrets, others))
}

/// The variable of a secret's flag, and what is assigned to the flag within the same argument.
fn secret_flag(argument: &OsStr) -> Option<(&'static str, Option<OsString>)> {
    SECRETS.iter().find_map(|(flag, variable)| {
        let rest = argument.as_bytes().strip_prefix(flag.as_bytes())?;
        match rest.strip_prefix(b"=") {
            Some(value) => Some((*variable, Some(OsString::from_vec(value.to_vec())))),
            None => rest.is_empty().then_some((*variable, None)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: arguments; the secrets, and the arguments without them.
    #[test]
    fn a_secret_is_told_from_other_arguments() {
        const SECRET: &str = "MAYFLY_SECRET";
        const TOKEN: &str = "MAYFLY_JOIN_TOKEN";
        const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
        const METRICS_HEADERS: &str = "OTEL_EXPORTER_OTLP_METRICS_HEADERS";
        for (given, expected) in [
            ("serve --secret s --node 1", Some((&[(SECRET, "s")][..], "serve --node 1"))),
            ("serve --secret=s=t", Some((&[(SECRET, "s=t")], "serve"))),
            ("serve --token t --join a", Some((&[(TOKEN, "t")], "serve --join a"))),
            ("serve --token=t --secret s", Some((&[(TOKEN, "t"), (SECRET, "s")], "serve"))),
            ("serve --otlp-headers a=b --node 1", Some((&[(HEADERS, "a=b")], "serve --node 1"))),
            ("serve --otlp-metrics-headers=a=b", Some((&[(METRICS_HEADERS, "a=b")], "serve"))),
            ("serve --secret-file f", None),
            ("serve --token-file f", None),
            ("serve --node 1", None),
            ("cluster token --list", None),
            ("send q -- --secret s", None),
            ("send q --secret s -- --secret t", Some((&[(SECRET, "s")], "send q -- --secret t"))),
            ("serve --secret", None),
            ("serve --secret s --secret t", None),
            ("serve --secret s --secret=t", None),
            ("serve --token s --secret t --token u", None),
        ] {
            let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            let expected = expected.map(|(secrets, others)| {
                let secrets = secrets.iter().map(|(name, value)| (*name, OsString::from(value)));
                (secrets.collect(), words(others))
            });
            assert_eq!(without_secrets(words(given)), expected, "{given}");
        }
    }
}
