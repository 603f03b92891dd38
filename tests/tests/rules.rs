//! Every rule of the specification has a test of its name: `ttl_11_…` tests TTL-11. What has none
//! must be listed, with a reason, in `rules-untested.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Groups whose rules must be tested or excused. The other groups are printed only.
const GROUPS: &[&str] = &[
    "TIME", "MSG", "ENT", "SEQ", "SEND", "TTL", "LOCK", "DLQ", "SCHED", "DEFER", "PEEK", "DUP",
    "SESS", "RULE", "FWD", "TX", "BATCH", "COUNT", "STATE", "QUOTA", "ERR", "IDLE",
];

type Rule = (String, u32);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").into()
}

/// `TTL-11` at the head of `text`.
fn rule_at(text: &str) -> Option<Rule> {
    let (group, rest) = text.split_once('-')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let is_group = !group.is_empty() && group.chars().all(|c| c.is_ascii_uppercase());
    is_group.then_some((group.to_owned(), digits.parse().ok()?))
}

/// Rules are defined as `- **TTL-11** …` or as table rows `| ERR-4 | …`.
fn specified() -> BTreeSet<Rule> {
    let text =
        std::fs::read_to_string(root().join("docs/semantics.md")).expect("docs/semantics.md");
    text.lines()
        .filter_map(|line| line.strip_prefix("- **").or_else(|| line.strip_prefix("| ")))
        .filter_map(rule_at)
        .collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// Names of test functions that begin with a rule: `fn ttl_11_…` after a `#[test]`-like attribute
/// or inside `proptest!`. A name may open with several rules: `ttl_11_ttl_12_…`.
fn tested() -> BTreeMap<Rule, Vec<String>> {
    let mut files = Vec::new();
    for dir in ["crates", "tests"] {
        sources(&root().join(dir), &mut files);
    }
    let mut rules: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        for line in text.lines() {
            let line = line.trim_start();
            let Some(rest) = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))
            else {
                continue;
            };
            let name = rest.split('(').next().unwrap_or_default();
            let mut words = name.split('_').peekable();
            while let (Some(group), Some(number)) = (words.next(), words.next()) {
                let Ok(number) = number.parse() else { break };
                rules.entry((group.to_uppercase(), number)).or_default().push(name.to_owned());
            }
        }
    }
    rules
}

/// Rule → reason.
fn excused() -> BTreeMap<Rule, String> {
    let path = root().join("tests/rules-untested.toml");
    let text = std::fs::read_to_string(path).expect("tests/rules-untested.toml");
    let table: toml::Table = text.parse().expect("rules-untested.toml in TOML");
    let rules = table["rule"].as_array().expect("[[rule]] entries");
    rules
        .iter()
        .map(|entry| {
            let id = entry["id"].as_str().expect("id");
            let reason = entry["reason"].as_str().expect("reason");
            assert!(reason.len() >= 10, "{id}: give a reason, not '{reason}'");
            (rule_at(id).unwrap_or_else(|| panic!("'{id}' is not a rule id")), reason.to_owned())
        })
        .collect()
}

#[test]
fn every_rule_has_a_test_of_its_name_or_a_reason() {
    let (specified, tested, excused) = (specified(), tested(), excused());
    assert!(specified.len() > 300, "only {} rules were found", specified.len());
    let show = |rule: &Rule| format!("{}-{}", rule.0, rule.1);

    let mut untested = Vec::new();
    for rule in &specified {
        if tested.contains_key(rule) {
            continue;
        }
        match excused.get(rule) {
            Some(reason) => println!("no test: {} ({reason})", show(rule)),
            None if GROUPS.contains(&rule.0.as_str()) => untested.push(show(rule)),
            None => println!("no test: {} (a group of a later milestone)", show(rule)),
        }
    }
    let count = specified.iter().filter(|rule| tested.contains_key(rule)).count();
    println!("{count} of {} rules have a test of their name", specified.len());

    let stale: Vec<_> = excused.keys().filter(|rule| tested.contains_key(rule)).map(show).collect();
    let unknown: Vec<_> = tested
        .keys()
        .chain(excused.keys())
        .filter(|rule| GROUPS.contains(&rule.0.as_str()) && !specified.contains(rule))
        .map(show)
        .collect();
    assert!(untested.is_empty(), "rules without a test or a reason: {}", untested.join(", "));
    assert!(stale.is_empty(), "excused in rules-untested.toml, yet tested: {}", stale.join(", "));
    assert!(unknown.is_empty(), "not in docs/semantics.md: {}", unknown.join(", "));
}
