//! The rules this broker keeps: where they are specified, and how tests and texts name them.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Where rules are specified, by path in the repository.
pub const DOCUMENTS: [&str; 3] =
    ["docs/semantics.md", "docs/protocols/amqp.md", "docs/protocols/management.md"];

/// A rule's id, as `TTL-11`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId {
    pub group: String,
    pub number: u32,
}

impl RuleId {
    /// The id that `text` begins with, and what follows it. A group has two capitals or more, and a
    /// number ends where neither a letter nor another number follows: `CRC-32C` and `CVE-2023-44487`
    /// are no ids.
    pub fn split(text: &str) -> Option<(RuleId, &str)> {
        let (group, rest) = text.split_once('-')?;
        let (number, rest) = number_at(rest)?;
        let is_group = group.len() > 1 && group.bytes().all(|byte| byte.is_ascii_uppercase());
        let goes_on = rest.starts_with(char::is_alphanumeric)
            || rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
        let id = RuleId { group: group.to_owned(), number };
        (is_group && !goes_on).then_some((id, rest))
    }

    /// Every id in a text.
    pub fn all_in(text: &str) -> Vec<RuleId> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let words = text.split(|c| !is_part(c));
        words.filter_map(RuleId::split).map(|(id, _)| id).collect()
    }

    /// The rules a test is named for: `ttl_11_…`, several as `ttl_11_lock_4_…`, and a range as
    /// `req_10_to_req_22_…`.
    pub fn all_of_test(name: &str) -> Vec<RuleId> {
        let words: Vec<&str> = name.split('_').collect();
        let mut words = &words[..];
        let named = iter::from_fn(|| {
            let (group, first) = numbered(words)?;
            let last = match words {
                [_, _, "to", to @ ..] => numbered(to).filter(|(other, _)| *other == group),
                _ => None,
            };
            words = &words[if last.is_some() { 5 } else { 2 }..];
            Some((group, first..=last.map_or(first, |(_, last)| last)))
        });
        let ids = |(group, numbers): (&str, RangeInclusive<u32>)| {
            let group = group.to_uppercase();
            numbers.map(move |number| RuleId { group: group.clone(), number })
        };
        named.flat_map(ids).collect()
    }
}

fn numbered<'a>(words: &[&'a str]) -> Option<(&'a str, u32)> {
    let [group, number, ..] = words else { return None };
    Some((group, number.parse().ok()?))
}

fn number_at(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

impl fmt::Display for RuleId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.group, self.number)
    }
}

/// Every rule, with the document that specifies it: as `- **TTL-11** …` or as a row `| ERR-4 | …`.
///
/// # Panics
/// If a document cannot be read, or an id or a group is specified twice.
pub fn specified() -> BTreeMap<RuleId, &'static str> {
    let mut rules = BTreeMap::new();
    let mut groups = BTreeMap::new();
    for document in DOCUMENTS {
        let text = read(&root().join(document));
        for id in text.lines().filter_map(rule_of_line) {
            let other = *groups.entry(id.group.clone()).or_insert(document);
            assert_eq!(other, document, "the group of {id} is another document's");
            let other = rules.insert(id.clone(), document);
            assert_eq!(other, None, "{id} is specified twice");
        }
    }
    rules
}

fn rule_of_line(line: &str) -> Option<RuleId> {
    [("- **", "**"), ("| ", " |")].into_iter().find_map(|(before, after)| {
        let (id, rest) = RuleId::split(line.strip_prefix(before)?)?;
        rest.starts_with(after).then_some(id)
    })
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").into()
}

/// The repository's files whose names end so, in order; not those of builds.
///
/// # Panics
/// If a folder cannot be read.
pub fn files(ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    gather(&root(), ends, &mut found);
    found.sort();
    found
}

fn gather(folder: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_built = matches!(name, "target" | "node_modules") || name.starts_with('.');
        if path.is_dir() && !is_built {
            gather(&path, ends, found);
        } else if path.is_file() && ends.iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
}

/// A file's text.
///
/// # Panics
/// If it cannot be read.
pub fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ids: &[RuleId]) -> Vec<String> {
        ids.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ids_are_found_in_texts() {
        for (text, ids) in [
            ("TTL-11, and (LOCK-4).", &["TTL-11", "LOCK-4"][..]),
            ("REQ-10 to REQ-22: `ERR-4`", &["REQ-10", "REQ-22", "ERR-4"]),
            ("CRC-32C, CVE-2023-44487, x-opt-1, A-1, Ttl-11, XTTL_TTL-1, TTL-", &[]),
        ] {
            assert_eq!(shown(&RuleId::all_in(text)), ids, "{text}");
        }
    }

    #[test]
    fn a_test_names_its_rules() {
        for (name, ids) in [
            ("ttl_11_a_lock_shields", &["TTL-11"][..]),
            ("ttl_11_lock_4_the_clock", &["TTL-11", "LOCK-4"]),
            ("req_1_to_req_3_cond_2_replies", &["REQ-1", "REQ-2", "REQ-3", "COND-2"]),
            ("tx_5_to_any", &["TX-5"]),
            ("tx_5_to_any_2_of_them", &["TX-5"]),
            ("no_rule_at_all", &[]),
        ] {
            assert_eq!(shown(&RuleId::all_of_test(name)), ids, "{name}");
        }
    }

    #[test]
    fn a_rule_is_a_point_or_a_row() {
        for (line, id) in [
            ("- **TTL-11** Expiry waits.", Some("TTL-11")),
            ("| ERR-4 | lock not held |", Some("ERR-4")),
            ("| ERR-4 to ERR-6 | locks |", None),
            ("see **TTL-11**", None),
        ] {
            assert_eq!(rule_of_line(line).map(|id| id.to_string()).as_deref(), id, "{line}");
        }
    }
}
