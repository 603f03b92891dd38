//! How the code reads, where a program can tell: a type's name is defined once in a crate, words that
//! the glossary replaced are used no more, a module is named by a noun, every file says at its head
//! what it is about, and every channel has a bound.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules whose names end in -ing and are the field's nouns nevertheless.
const GERUNDS: &[(&str, &str)] = &[
    ("crates/amqp-protocol/src/engine/incoming.rs", "one of AMQP's two directions"),
    ("crates/amqp-protocol/src/engine/outgoing.rs", "one of AMQP's two directions"),
    ("crates/amqp-protocol/src/engine/tests/timing.rs", "timing, a noun: tests of the next"),
    ("crates/amqp-protocol/src/engine/timing.rs", "timing, a noun: what is due when"),
    ("crates/amqp/src/server/incoming.rs", "one of AMQP's two directions"),
    ("crates/amqp/src/server/outgoing.rs", "one of AMQP's two directions"),
    ("crates/grpc/src/messaging.rs", "`mayfly.v1.Messaging`, a service of the API"),
    ("crates/replication/src/blocking.rs", "blocking work, as tokio says"),
    ("crates/simulation/src/forwarding.rs", "auto-forwarding, the feature (FWD)"),
    ("crates/simulation/src/group/forwarding.rs", "auto-forwarding, the feature (FWD)"),
    ("crates/domain/tests/model/forwarding.rs", "auto-forwarding, the feature (FWD)"),
    ("tests/tests/forwarding.rs", "auto-forwarding, the feature (FWD)"),
];

/// Where a channel has no bound of its own, and what bounds what waits in it: told there at length.
const UNBOUNDED: &[(&str, &str)] = &[(
    "crates/service/src/leader/inputs.rs",
    "what clients cause is counted and refused; of the rest there is one for something bounded",
)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").into()
}

/// Every file below `folder` with this extension, by its path from the workspace's root. Builds are
/// not ours.
fn files(folder: &str, extension: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                let is_ours = |name: &str| !["target", "node_modules"].contains(&name);
                if path.file_name().and_then(|name| name.to_str()).is_some_and(is_ours) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                found.insert(name, std::fs::read_to_string(&path).expect("text"));
            }
        }
    }
    found
}

fn sources() -> BTreeMap<String, String> {
    ["crates", "tests", "benches"].iter().flat_map(|folder| files(folder, "rs")).collect()
}

/// What is written for readers, but for the glossary, which says what was replaced, and for what
/// tells of former versions.
fn documents() -> BTreeMap<String, String> {
    let mut found = files("docs", "md");
    found.extend(files("tests", "md"));
    found.remove("docs/glossary.md");
    for name in ["README.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root().join(name)).expect("text");
        found.insert(name.to_owned(), text);
    }
    found
}

/// A piece of a Rust source. What strings hold is data and left out: keys of files on disk, text of
/// clients.
#[derive(Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Comment(&'a str),
    Sign(char),
}

/// Cuts a source into words, comments and signs; each with its line, from 1.
fn tokens(source: &str) -> Vec<(usize, Token<'_>)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut found, mut line, mut rest) = (Vec::new(), 1, source);
    while let Some(first) = rest.chars().next() {
        let raw = raw_string_bytes(rest);
        let (token, bytes) = if rest.starts_with("//") {
            let bytes = rest.find('\n').unwrap_or(rest.len());
            (Some(Token::Comment(&rest[..bytes])), bytes)
        } else if rest.starts_with("/*") {
            let bytes = rest.find("*/").map_or(rest.len(), |end| end + 2);
            (Some(Token::Comment(&rest[..bytes])), bytes)
        } else if raw > 0 {
            (None, raw)
        } else if is_word(first) {
            let bytes = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (Some(Token::Word(&rest[..bytes])), bytes)
        } else if first == '"' {
            (None, quoted_bytes(rest, '"'))
        } else if first == '\'' {
            (None, char_bytes(rest))
        } else {
            let sign = (!first.is_whitespace()).then_some(Token::Sign(first));
            (sign, first.len_utf8())
        };
        found.extend(token.map(|token| (line, token)));
        line += rest[..bytes].matches('\n').count();
        rest = &rest[bytes..];
    }
    found
}

/// Of `r"…"`, `r#"…"#` and their like; 0 where none begins here.
fn raw_string_bytes(rest: &str) -> usize {
    let Some(after) = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r')) else { return 0 };
    let hashes = after.len() - after.trim_start_matches('#').len();
    let Some(body) = after[hashes..].strip_prefix('"') else { return 0 };
    let end = format!("\"{}", "#".repeat(hashes));
    let before = rest.len() - body.len();
    body.find(&end).map_or(rest.len(), |at| before + at + end.len())
}

/// From a quote to the one that ends it.
fn quoted_bytes(rest: &str, quote: char) -> usize {
    let mut escaped = true; // As is the first.
    for (at, c) in rest.char_indices() {
        match (escaped, c) {
            (false, c) if c == quote => return at + 1,
            (false, '\\') => escaped = true,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// Of a character; of a lifetime the mark alone.
fn char_bytes(rest: &str) -> usize {
    let mut inside = rest.chars().skip(1);
    let is_char = match inside.next() {
        Some('\\') => true,
        _ => inside.next() == Some('\''),
    };
    if is_char { quoted_bytes(rest, '\'') } else { 1 }
}

/// Every type that a source defines, with its line. What an `impl` or a trait calls `type` is a part
/// of that trait, and no name of its own.
fn types(source: &str) -> Vec<(usize, &str)> {
    let tokens: Vec<_> = tokens(source)
        .into_iter()
        .filter(|(_, token)| !matches!(token, Token::Comment(_)))
        .collect();
    // For every brace that is open: whether an `impl` or a trait began with it.
    let (mut found, mut scopes, mut opens_members) = (Vec::new(), vec![false], false);
    for (at, (line, token)) in tokens.iter().enumerate() {
        let before = |by| at.checked_sub(by).map(|at: usize| &tokens[at].1);
        let begins_item = match before(1) {
            None => true,
            Some(Token::Sign('(')) => before(2) == Some(&Token::Sign('$')), // Of a macro.
            Some(Token::Sign(sign)) => "{};])".contains(*sign),
            Some(Token::Word(word)) => ["pub", "unsafe"].contains(word),
            Some(Token::Comment(_)) => false,
        };
        let name = match tokens.get(at + 1) {
            Some((_, Token::Word(name))) => Some(*name),
            _ => None,
        };
        let in_members = scopes.last() == Some(&true);
        match token {
            Token::Sign('{') => scopes.push(std::mem::take(&mut opens_members)),
            Token::Sign('}') => drop(scopes.pop()),
            Token::Word("impl") if begins_item => opens_members = true,
            Token::Word("trait") if begins_item => {
                opens_members = true;
                found.extend(name.map(|name| (*line, name)));
            }
            Token::Word("struct" | "enum") if begins_item => {
                found.extend(name.map(|name| (*line, name)));
            }
            Token::Word("type") if begins_item && !in_members => {
                found.extend(name.map(|name| (*line, name)));
            }
            _ => (),
        }
    }
    found
}

/// The crate whose source a file is. A file of `tests/` below a crate is a crate of its own.
fn crate_of(path: &str) -> Option<&str> {
    path.find("/src/").map(|at| &path[..at])
}

/// Where each type of each crate is defined, tests within the sources included.
fn definitions() -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let mut all: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for (path, source) in sources() {
        let Some(name) = crate_of(&path) else { continue };
        let of_crate = all.entry(name.to_owned()).or_default();
        for (line, name) in types(&source) {
            of_crate.entry(name.to_owned()).or_default().push(format!("{path}:{line}"));
        }
    }
    all
}

#[test]
fn a_name_of_a_type_is_defined_once_in_a_crate() {
    let definitions = definitions();
    assert!(definitions.len() > 15 && definitions["crates/domain"].len() > 100, "types are seen");
    let mut wrong = Vec::new();
    for (name, types) in &definitions {
        for (of, places) in types.iter().filter(|(_, places)| places.len() > 1) {
            wrong.push(format!("{name}: `{of}` is {}", places.join(" and ")));
        }
    }
    assert!(wrong.is_empty(), "names with two meanings:\n{}", wrong.join("\n"));
}

/// What the glossary strikes out: `~~word~~`, or `~~two words~~`.
fn replaced(glossary: &str) -> BTreeSet<String> {
    glossary.split("~~").skip(1).step_by(2).map(str::to_lowercase).collect()
}

/// The words of a text or an identifier, in lower case: `LogId` and `log_id` are "log id".
fn plain(text: &str) -> String {
    let mut words = String::from(" ");
    let mut last = ' ';
    for c in text.chars() {
        if c.is_uppercase() && last.is_lowercase() {
            words.push(' ');
        }
        words.extend(if c.is_alphabetic() { c.to_lowercase().next() } else { Some(' ') });
        last = c;
    }
    words.push(' ');
    words.split_whitespace().fold(" ".to_owned(), |line, word| line + word + " ")
}

/// Which of the words a text uses, in the singular or in the plural.
fn used<'a>(text: &str, words: &'a BTreeSet<String>) -> Vec<&'a str> {
    let text = plain(text);
    let is_used = |word: &&String| {
        text.contains(&format!(" {word} ")) || text.contains(&format!(" {word}s "))
    };
    words.iter().filter(is_used).map(String::as_str).collect()
}

#[test]
fn what_the_glossary_replaced_is_said_no_more() {
    let glossary = std::fs::read_to_string(root().join("docs/glossary.md")).expect("a glossary");
    let words = replaced(&glossary);
    assert!(words.contains("shard") && words.len() > 10, "the glossary strikes out {words:?}");
    let mut wrong = Vec::new();
    let mut check = |place: String, text: &str| {
        wrong.extend(used(text, &words).iter().map(|word| format!("{place}: \"{word}\"")));
    };
    for (path, source) in sources() {
        for (line, token) in tokens(&source) {
            if let Token::Word(text) | Token::Comment(text) = token {
                check(format!("{path}:{line}"), text);
            }
        }
    }
    for (path, text) in documents().into_iter().chain(files("crates", "proto")) {
        for (line, text) in text.lines().enumerate() {
            check(format!("{path}:{}", line + 1), text);
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "see docs/glossary.md for:\n{}", wrong.join("\n"));
}

#[test]
fn modules_are_named_by_nouns() {
    let sources = sources();
    for (path, reason) in GERUNDS {
        assert!(sources.contains_key(*path), "{path} is gone ({reason}); take it out of GERUNDS");
    }
    let wrong: Vec<&String> = sources
        .keys()
        .filter(|path| path.ends_with("ing.rs"))
        .filter(|path| !GERUNDS.iter().any(|(known, _)| known == path))
        .collect();
    assert!(wrong.is_empty(), "what is it that they hold? {wrong:?}");
}

#[test]
fn every_file_says_what_it_is_about() {
    let silent: Vec<String> = sources()
        .into_iter()
        .filter(|(_, source)| !source.starts_with("//! "))
        .map(|(path, _)| path)
        .collect();
    assert!(silent.is_empty(), "no sentence at the head of {silent:?}");
}

/// The lines that make a channel without a bound: what waits in one is memory that whoever fills it
/// decides on. Tests, which stand at a file's end, may have them.
fn unbounded(source: &str) -> Vec<usize> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let makes = |token: &Token<'_>| {
        matches!(token, Token::Word("unbounded_channel" | "unbounded" | "unbounded_queue"))
    };
    let lines = tokens(code).into_iter().filter(|(_, token)| makes(token));
    lines.map(|(line, _)| line).collect()
}

#[test]
fn every_channel_has_a_bound() {
    let is_run = |path: &str| {
        (path.contains("/src/") && !path.contains("/tests/") && !path.ends_with("/tests.rs"))
            && !path.starts_with("tests/")
    };
    let (mut wrong, mut proved) = (Vec::new(), BTreeSet::new());
    for (path, source) in sources().iter().filter(|(path, _)| is_run(path)) {
        for line in unbounded(source) {
            match UNBOUNDED.iter().find(|(of, _)| path == of) {
                Some((of, _)) => drop(proved.insert(*of)),
                None => wrong.push(format!("{path}:{line}")),
            }
        }
    }
    assert!(wrong.is_empty(), "channels without a bound: {wrong:?}");
    for (of, why) in UNBOUNDED {
        assert!(proved.contains(of), "{of} has none any more ({why}); take it out of UNBOUNDED");
    }
}

#[test]
fn channels_without_a_bound_are_found_unless_tests_have_them() {
    let made = "use tokio::sync::mpsc;\nlet ends = mpsc::unbounded_channel();\n";
    assert_eq!(unbounded(made), [2]);
    assert_eq!(unbounded("let ends = futures::channel::mpsc::unbounded::<u8>();"), [1]);
    assert!(
        unbounded("// no unbounded_channel\nlet ends = mpsc::channel(WAITING_MAX);").is_empty()
    );
    assert!(unbounded(&format!("#[cfg(test)]\nmod tests {{\n{made}}}\n")).is_empty());
}

#[test]
fn definitions_are_told_from_what_looks_like_them() {
    let source = r##"
//! struct Comment;
pub struct Plain { of: &'static str }
pub(crate) enum Kind<'a> { A(char), B(&'a str) }
impl Iterator for Plain {
    type Item = u8;
    fn next(&mut self) -> Option<impl Sized + use<>> { struct Inner; None }
}
trait Open { type Error; fn text() -> &'static str { "struct Text;" } }
type Short = Vec<u8>;
macro_rules! made { ($($name:ident)+) => { $(impl Open for $name { type Error = (); })+ } }
fn both() -> (impl Sized, impl Sized) { type Local = (); ((), ()) }
const RAW: &str = r#"enum "Raw" {"#;
const QUOTE: (char, char) = ('"', '\'');
mod tests { use super::*; type Short = (); }
"##;
    let names: Vec<&str> = types(source).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["Plain", "Kind", "Inner", "Open", "Short", "Local", "Short"]);
    assert_eq!(types(source)[3].0, 9, "lines are counted");
}

#[test]
fn words_are_found_in_any_spelling() {
    let words = replaced("| forwarder | … | ~~courier~~, ~~young row~~ |");
    for text in ["CourierId", "// Two couriers.", "of_courier", "COURIER", "/// Young rows go."] {
        assert_eq!(used(text, &words).len(), 1, "{text}");
    }
    for text in ["couriered", "too young", "a row", "cour_ier"] {
        assert!(used(text, &words).is_empty(), "{text}");
    }
}
