//! Where in a TOML file something stands: for messages of one line that name file, line and key.

use toml::de::{DeTable, DeValue, Error};

/// What a file in TOML was refused for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlFault<'a> {
    /// All before the line.
    pub before: &'a str,
    /// The line it is about, and its number from 1. None: the file as a whole.
    pub line: Option<(usize, &'a str)>,
    /// In one line.
    pub message: String,
}

impl<'a> TomlFault<'a> {
    /// Of the text that was read.
    pub fn of(text: &'a str, error: &Error) -> TomlFault<'a> {
        let message = one_line(error.message());
        let Some(span) = error.span() else {
            return TomlFault { before: "", line: None, message };
        };
        let before = &text[..span.start.min(text.len())];
        let number = before.matches('\n').count() + 1;
        let line = text.lines().nth(number - 1).unwrap_or_default();
        TomlFault { before, line: Some((number, line)), message }
    }

    /// `file:12: key: what is wrong`.
    pub fn told(&self, name: &str) -> String {
        let TomlFault { line, message, .. } = self;
        let Some((number, line)) = line else { return format!("{name}: {message}") };
        if let Some(rest) = message.strip_prefix("unknown field `") {
            return format!("{name}:{number}: unknown key '{}", rest.replacen('`', "'", 1));
        }
        match line.split_once('=') {
            // The fault is the value's, not the key's.
            Some((key, value)) if !value.trim().is_empty() => {
                format!("{name}:{number}: {}: {message}", key.trim())
            }
            _ => format!("{name}:{number}: {message}"),
        }
    }
}

fn one_line(message: &str) -> String {
    message.split('\n').map(str::trim).collect::<Vec<_>>().join("; ")
}

/// The line, from 1, of what a path like `topics[0].subscriptions[1] (eur).name` leads to in a TOML file, or of
/// the last on the way to it that is there.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut at = table.span().start;
    let mut found = table.get_ref();
    let mut value;
    for step in path.split('.') {
        let (name, index) = match step.split_once('[') {
            // Behind the bracket there may be what it is called.
            Some((name, rest)) => {
                (name, rest.split(']').next().and_then(|index| index.parse::<usize>().ok()))
            }
            None => (step, None),
        };
        let Some((key, of)) = found.iter().find(|(key, _)| key.get_ref() == name) else { break };
        (at, value) = (key.span().start, of);
        if let (Some(index), DeValue::Array(items)) = (index, value.get_ref()) {
            let Some(item) = items.get(index) else { break };
            (at, value) = (item.span().start, item);
        }
        let DeValue::Table(inner) = value.get_ref() else { break };
        found = inner;
    }
    Some(text[..at.min(text.len())].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Small {
        #[serde(default)]
        #[expect(dead_code, reason = "only its type is of interest")]
        number: u8,
    }

    #[test]
    fn a_fault_is_told_with_its_line_and_key() {
        for (text, told) in [
            ("# a\nnumber = \"x\"", "f:2: number: invalid type: string \"x\", expected u8"),
            ("\nnumbr = 5", "f:2: unknown key 'numbr', expected `number`"),
            ("number = [", "f:1: number: unclosed array, expected `]`"),
        ] {
            let error = toml::from_str::<Small>(text).expect_err(text);
            assert_eq!(TomlFault::of(text, &error).told("f"), told);
        }
    }

    #[test]
    fn a_path_leads_to_its_line() {
        let text = "a = 1\n\n[[queues]]\nname = \"x\"\n\n[[queues]]\nname = \"y\"\nttl = 5\n\
                    [[queues.rules]]\nof = 1\n";
        for (path, line) in [
            ("a", 1),
            ("queues[0].name", 4),
            ("queues[1]", 6),
            ("queues[1] (y)", 6),
            ("queues[1].ttl", 8),
            ("queues[1].rules[0].of", 10),
            ("queues[1].gone", 6),
            ("gone", 1),
        ] {
            assert_eq!(line_of(text, path), Some(line), "{path}");
        }
        assert_eq!(line_of("= no", "a"), None);
    }
}
