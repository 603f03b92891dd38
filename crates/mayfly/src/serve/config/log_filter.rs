//! `log.filter`: which words it may hold. The filter's own reader takes every word for the name of a target that
//! may come to be, so that a level with a slip in it silences the log without a word.

use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Where a node's records come from: the crates of this workspace that it is made of.
const OURS: [&str; 33] = [
    "amqp",
    "amqp_client",
    "amqp_protocol",
    "arm_template",
    "audit",
    "auth",
    "backup",
    "chaos",
    "client",
    "azure",
    "console",
    "definitions",
    "domain",
    "engine",
    "experiment",
    "fault_rules",
    "grpc",
    "http",
    "limits",
    "load",
    "mayfly",
    "message_content",
    "remote",
    "replication",
    "service",
    "openid",
    "otlp",
    "spans",
    "store",
    "timer_wheel",
    "transport",
    "wire",
    "workload",
];

/// Libraries that tell what they do.
const LIBRARIES: [&str; 14] = [
    "axum",
    "axum_core",
    "h2",
    "hyper",
    "hyper_util",
    "mio",
    "openraft",
    "rustls",
    "tokio",
    "tokio_util",
    "tonic",
    "tower",
    "tower_http",
    "tungstenite",
];

/// The error names the word, and what it may be.
pub fn check(filter: &str) -> Result<(), String> {
    for directive in directives(filter) {
        match directive.split_once('=') {
            None if is_level(directive) || is_target(directive) => {}
            None => return Err(format!("log.filter: '{directive}' is {}", neither())),
            Some((target, level)) if directive.contains(['[', '{']) => {
                // Of spans: which there are, and what fields they have, is not known before.
                let target = target.split('[').next().unwrap_or_default();
                let level = level.rsplit('=').next().unwrap_or_default();
                known(target, level)?;
            }
            Some((target, level)) => known(target, level)?,
        }
    }
    EnvFilter::try_new(filter).map(drop).map_err(|why| format!("log.filter: '{filter}': {why}"))
}

/// Commas part them, but for those within a span's fields.
fn directives(filter: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = filter.split(move |c| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn known(target: &str, level: &str) -> Result<(), String> {
    if !target.is_empty() && !is_target(target) {
        return Err(format!("log.filter: '{target}' is {}", neither()));
    }
    match is_level(level) {
        true => Ok(()),
        false => Err(format!("log.filter: '{level}' is no level; write {}", LEVELS.join(", "))),
    }
}

fn is_level(word: &str) -> bool {
    let is_number = word.parse::<usize>().is_ok_and(|level| level < LEVELS.len());
    is_number || LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
}

fn is_target(word: &str) -> bool {
    let root = word.split("::").next().unwrap_or_default();
    OURS.contains(&root) || LIBRARIES.contains(&root)
}

fn neither() -> String {
    format!(
        "neither a level ({}) nor where records come from ({}, and of libraries {})",
        LEVELS.join(", "),
        OURS.join(", "),
        LIBRARIES.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: a filter, and how its refusal begins; empty: it is taken.
    #[test]
    fn words_that_nobody_knows_are_refused() {
        for (filter, told) in [
            ("", ""),
            ("warn", ""),
            ("WARN", ""),
            ("3", ""),
            ("info,openraft=error", ""),
            (" info , replication = debug", "log.filter: 'replication ' is neither a level"),
            ("info,replication=debug,audit=off", ""),
            ("service::leader=trace", ""),
            ("amqp", ""),
            ("info,amqp[link{name=a}]=debug", ""),
            ("info,[link]=debug", ""),
            ("info,ampq[link]=debug", "log.filter: 'ampq' is neither a level"),
            (
                "inof",
                "log.filter: 'inof' is neither a level (off, error, warn, info, debug, trace)",
            ),
            ("info,replicaton=debug", "log.filter: 'replicaton' is neither a level"),
            ("info,replication=debgu", "log.filter: 'debgu' is no level; write off, error, warn"),
            ("info;replication=debug", "log.filter: 'info;replication' is neither a level"),
            ("6", "log.filter: '6' is neither a level"),
            ("replication=", "log.filter: '' is no level"),
        ] {
            match check(filter) {
                Ok(()) => assert_eq!(told, "", "{filter}"),
                Err(why) => {
                    assert!(!told.is_empty() && why.starts_with(told), "{filter}: {why}");
                    assert!(!why.contains('\n'), "{why}");
                }
            }
        }
    }

    /// Names of targets are those of crates: what the workspace's lock knows, no more.
    #[test]
    fn targets_are_names_of_crates_there_are() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let lock = std::fs::read_to_string(format!("{root}/Cargo.lock")).expect("a lock");
        let of = |name: &str| format!("name = \"{}\"\n", name.replace('_', "-"));
        for name in OURS.iter().chain(&LIBRARIES) {
            assert!(lock.contains(&of(name)), "{name}");
        }
        for entry in std::fs::read_dir(format!("{root}/crates")).expect("crates") {
            let name = entry.expect("one").file_name().to_string_lossy().replace('-', "_");
            // Programs by themselves.
            let is_ours = !["fuzz", "simulation"].contains(&name.as_str());
            assert_eq!(OURS.contains(&name.as_str()), is_ours, "{name}");
        }
    }
}
