//! What comments and documents cite is there: a rule's id is specified, and a section is said to be
//! one of a public standard or of a file of this repository.

use std::collections::BTreeSet;
use std::path::Path;

use mayfly_tests::specification::{RuleId, files, read, root, specified};

/// Names with a number that are no rules.
const NAMES: [&str; 5] = ["CRC", "RFC", "SHA", "SQL", "UTF"];
/// Public standards whose sections are cited. A section's number alone says nothing.
const STANDARDS: [&str; 3] = ["AMQP 1.0", "RFC ", "JMS "];
const SECTION_SIGN: char = '\u{a7}';
/// Whatever people write and read here.
const TEXTS: [&str; 10] =
    [".rs", ".md", ".toml", ".proto", ".py", ".js", ".mjs", ".sh", ".yaml", ".yml"];

/// A comment, lines that follow each other as one text, and where it begins.
struct Comment {
    line: usize,
    text: String,
}

/// The comments of a Rust file.
fn comments(source: &str) -> Vec<Comment> {
    let mut found: Vec<Comment> = Vec::new();
    let mut goes_on = false;
    for (number, line) in source.lines().enumerate() {
        let whole =
            line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']));
        let Some(text) = whole.or_else(|| comment_behind(line)) else {
            goes_on = false;
            continue;
        };
        match found.last_mut().filter(|_| goes_on && whole.is_some()) {
            Some(last) => last.text.push_str(text),
            None => found.push(Comment { line: number + 1, text: text.to_owned() }),
        }
        // An empty line of a comment ends a paragraph.
        goes_on = whole.is_some_and(|text| !text.trim().is_empty());
    }
    found
}

/// The comment that follows code on its line.
fn comment_behind(line: &str) -> Option<&str> {
    let (code, comment) = line.rsplit_once(" //")?;
    // Otherwise it stands in a string.
    code.matches('"').count().is_multiple_of(2).then_some(comment)
}

/// Numbers of sections and rules that do not say which document they are of, see the test below.
fn numbers_alone(comment: &str) -> Vec<&str> {
    let mut alone = Vec::new();
    let beginnings = comment.match_indices('(').map(|(at, _)| (&comment[at + 1..], ");,"));
    let lead = (comment.trim_start(), ":");
    for (text, ends) in beginnings.chain([lead]) {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let is_section = number.contains('.') && number.split('.').all(|part| !part.is_empty());
        if is_section && rest.starts_with(|c| ends.contains(c)) {
            alone.push(number);
        }
    }
    for word in ["rule ", "rules ", "section ", "sections "] {
        let lower = comment.to_ascii_lowercase();
        for (at, _) in lower.match_indices(word) {
            let number = comment[at + word.len()..].split(' ').next().unwrap_or_default();
            let is_word = !lower[..at].ends_with(char::is_alphanumeric);
            let digits = number.trim_end_matches(|c: char| c.is_ascii_punctuation());
            let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
                && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
            // A count has its unit behind it.
            let follows = &comment[at + word.len() + digits.len()..];
            let is_count = follows.starts_with(' ')
                && ![" of ", " and ", " to "].iter().any(|word| follows.starts_with(word));
            if is_word && is_number && !is_count && !is_of_standard(&comment[..at]) {
                alone.push(&comment[at..at + word.len() + digits.len()]);
            }
        }
    }
    alone
}

fn is_of_standard(before: &str) -> bool {
    STANDARDS.iter().any(|standard| before.contains(standard))
}

/// Section signs that follow neither a standard's name nor that of a file that is there.
fn signs_alone(line: &str) -> usize {
    let is_alone = |(at, _): &(usize, &str)| {
        let before = &line[..*at];
        let words = before.split(|c: char| c.is_whitespace() || "()[]`,;".contains(c));
        let mut files = words.filter(|word| word.ends_with(".md"));
        !is_of_standard(before) && !files.any(|file| root().join(file).is_file())
    };
    line.match_indices(SECTION_SIGN).filter(is_alone).count()
}

fn place(file: &Path, line: usize) -> String {
    let file = file.strip_prefix(root()).unwrap_or(file);
    format!("{}:{line}", file.display())
}

#[test]
fn every_rule_cited_is_specified() {
    let specified = specified();
    let groups: BTreeSet<&str> = specified.keys().map(|rule| rule.group.as_str()).collect();
    let (mut cited, mut unknown) = (0, Vec::new());
    for file in files(&TEXTS) {
        for (number, line) in read(&file).lines().enumerate() {
            for rule in
                RuleId::all_in(line).into_iter().filter(|rule| groups.contains(&*rule.group))
            {
                cited += 1;
                if !specified.contains_key(&rule) {
                    unknown.push(format!("{}: {rule}", place(&file, number + 1)));
                }
            }
        }
    }
    assert!(cited > 3000, "only {cited} citations were found");
    assert!(unknown.is_empty(), "cited and not specified:\n{}", unknown.join("\n"));
}

#[test]
fn every_group_cited_is_one() {
    let specified = specified();
    let is_known = |rule: &RuleId| {
        NAMES.contains(&&*rule.group) || specified.keys().any(|known| known.group == rule.group)
    };
    let mut unknown = Vec::new();
    let mut look = |place: String, text: &str| {
        let found = RuleId::all_in(text).into_iter().filter(|rule| !is_known(rule));
        unknown.extend(found.map(|rule| format!("{place}: {rule}")));
    };
    for file in files(&[".rs"]) {
        comments(&read(&file))
            .iter()
            .for_each(|comment| look(place(&file, comment.line), &comment.text));
    }
    for file in files(&[".md"]) {
        read(&file)
            .lines()
            .enumerate()
            .for_each(|(number, line)| look(place(&file, number + 1), line));
    }
    assert!(
        unknown.is_empty(),
        "no group of rules, and no name known here:\n{}",
        unknown.join("\n")
    );
}

#[test]
fn a_section_names_its_document() {
    let mut alone = Vec::new();
    for file in files(&TEXTS) {
        for (number, line) in read(&file).lines().enumerate() {
            if signs_alone(line) > 0 {
                alone.push(format!("{}: {}", place(&file, number + 1), line.trim()));
            }
        }
    }
    for file in files(&[".rs"]) {
        for comment in comments(&read(&file)) {
            let numbers = numbers_alone(&comment.text);
            if !numbers.is_empty() {
                alone.push(format!("{}: {numbers:?}", place(&file, comment.line)));
            }
        }
    }
    assert!(
        alone.is_empty(),
        "say of what it is a section, as in 'AMQP 1.0, part 2, 2.6.7', or cite a rule:\n{}",
        alone.join("\n")
    );
}

#[test]
fn numbers_without_a_document_are_found() {
    for (comment, alone) in [
        ("what the flow leaves (2.6.7).", &["2.6.7"][..]),
        ("2.2: another protocol is told", &["2.2"]),
        ("each is answered (rules 4, 5).", &["rules 4"]),
        ("Rule 19: what tells them apart", &["Rule 19"]),
        ("Section 7 of a paper", &["Section 7"]),
        ("the fields (AMQP 1.0, part 2, 2.7) in order", &[]),
        ("as RFC 9113, section 4.1 and 6, has it", &[]),
        ("the walk over its sections 30 ns, an add (0.1 us each)", &[]),
        ("TTL-11 and LINK-4", &[]),
    ] {
        assert_eq!(numbers_alone(comment), alone, "{comment}");
    }
    for (line, count) in [
        ("see \u{a7}7.1", 1),
        ("RFC 7231 \u{a7}4.3.4", 0),
        ("docs/semantics.md \u{a7}3", 0),
        ("docs/none.md \u{a7}3", 1),
    ] {
        assert_eq!(signs_alone(line), count, "{line}");
    }
}

#[test]
fn comments_are_told_from_code() {
    let source =
        "/// One,\n/// two.\n///\n/// Three.\nlet url = \"http://a // b\"; // Four.\n// Five.\n";
    let found: Vec<_> =
        comments(source).into_iter().map(|Comment { line, text }| (line, text)).collect();
    let expected = [(1, " One, two."), (4, " Three."), (5, " Four."), (6, " Five.")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
}
