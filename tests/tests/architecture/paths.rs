//! The paths in a source that begin at `crate` or `super`: of Rust's grammar, as much as finds them.
//!
//! Comments, literals and what is compiled for tests only are passed over. A path that a macro puts together
//! from parts is not seen.

use std::collections::BTreeSet;

/// What a source says of other modules of its crate.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// From the crate's root on; a glob ends in `*`.
    pub paths: BTreeSet<Vec<String>>,
    /// What `use` brings in without `crate` or `super`, each with the name it has here.
    pub uses: BTreeSet<(Vec<String>, String)>,
    /// Names of public items, of macros too.
    pub public: BTreeSet<String>,
    /// Modules in files of their own that are compiled for tests only.
    pub test_modules: BTreeSet<Vec<String>>,
}

/// Reads the source of the module at `module`, which for the crate's root is empty.
pub fn find(source: &str, module: &[String]) -> Found {
    let mut reader = Reader {
        tokens: tokens(source),
        at: 0,
        module: module.to_vec(),
        braces: Vec::new(),
        found: Found::default(),
    };
    reader.read();
    reader.found
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    /// `::`.
    Separator,
    Mark(char),
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    module: Vec<String>,
    /// Open braces, each with whether a module's body stands in it.
    braces: Vec<bool>,
    found: Found,
}

impl Reader {
    fn read(&mut self) {
        while let Some(token) = self.tokens.get(self.at).cloned() {
            match token {
                Token::Word(word) => self.word(&word),
                Token::Mark('#') if self.is_for_tests() => self.pass_over_item(),
                Token::Mark('{') => self.open(false),
                Token::Mark('}') => self.close(),
                Token::Mark(_) | Token::Separator => self.at += 1,
            }
        }
    }

    fn word(&mut self, word: &str) {
        let follows_separator = self.at > 0 && self.tokens[self.at - 1] == Token::Separator;
        match word {
            "crate" | "super" if self.is_at(1, &Token::Separator) && !follows_separator => {
                // `pub(in crate::a)` says who may see an item, not what the item needs.
                let restricts = self.at > 0 && self.tokens[self.at - 1] == Token::Word("in".into());
                let paths = self.tree(&[]).into_iter().map(|(path, _)| self.absolute(path));
                let paths: Vec<_> = paths.filter(|_| !restricts).collect();
                self.found.paths.extend(paths);
            }
            "use" => {
                self.at += 1;
                let starts_at_root = matches!(self.word_at(0), Some("crate" | "super"));
                if !starts_at_root {
                    let uses = self.tree(&[]);
                    self.found.uses.extend(uses);
                }
            }
            "mod" if self.is_at(2, &Token::Mark('{')) => {
                self.module.extend(self.word_at(1).map(str::to_owned));
                self.at += 2;
                self.open(true);
            }
            "pub" => self.public(),
            "macro_rules" => {
                self.found.public.extend(self.word_at(2).map(str::to_owned));
                self.at += 1;
            }
            _ => self.at += 1,
        }
    }

    /// The name behind `pub`, `pub(crate)` and the words that may stand before a name.
    fn public(&mut self) {
        self.at += 1;
        let mut ahead = 0;
        if self.is_at(0, &Token::Mark('(')) {
            while !self.is_at(ahead, &Token::Mark(')')) && self.at + ahead < self.tokens.len() {
                ahead += 1;
            }
            ahead += 1;
        }
        while matches!(self.word_at(ahead), Some("async" | "unsafe" | "const" | "static" | "mut")) {
            ahead += 1;
        }
        let name = match self.word_at(ahead) {
            Some("fn" | "struct" | "enum" | "trait" | "type" | "mod" | "union") => {
                self.word_at(ahead + 1)
            }
            Some("use") | None => None,
            Some(name) => Some(name), // Of a constant, or of a field, which nobody asks for.
        };
        self.found.public.extend(name.map(str::to_owned));
    }

    /// The leaves of the tree that begins here, each with the name that it has from here on.
    fn tree(&mut self, prefix: &[String]) -> Vec<(Vec<String>, String)> {
        match self.tokens.get(self.at).cloned() {
            Some(Token::Mark('{')) => {
                self.at += 1;
                let mut leaves = Vec::new();
                while self.at < self.tokens.len() && !self.is_at(0, &Token::Mark('}')) {
                    if self.is_at(0, &Token::Mark(',')) {
                        self.at += 1;
                    } else {
                        leaves.extend(self.tree(prefix));
                    }
                }
                self.at += 1;
                leaves
            }
            Some(Token::Mark('*')) => {
                self.at += 1;
                vec![([prefix, &["*".to_owned()]].concat(), "*".to_owned())]
            }
            Some(Token::Word(word)) => {
                self.at += 1;
                let path = match word.as_str() {
                    "self" if !prefix.is_empty() => prefix.to_vec(),
                    _ => [prefix, std::slice::from_ref(&word)].concat(),
                };
                let goes_on = self.is_at(0, &Token::Separator)
                    && (self.word_at(1).is_some()
                        || self.is_at(1, &Token::Mark('{'))
                        || self.is_at(1, &Token::Mark('*')));
                if goes_on {
                    self.at += 1;
                    return self.tree(&path);
                }
                let mut name = path.last().cloned().unwrap_or_default();
                if self.word_at(0) == Some("as") {
                    name = self.word_at(1).unwrap_or_default().to_owned();
                    self.at += 2;
                }
                vec![(path, name)]
            }
            Some(Token::Mark(_) | Token::Separator) | None => {
                self.at += 1;
                Vec::new()
            }
        }
    }

    /// A path that begins with `crate` or `super`, from the crate's root on.
    fn absolute(&self, path: Vec<String>) -> Vec<String> {
        let mut from = match path[0].as_str() {
            "crate" => Vec::new(),
            _ => self.module.clone(),
        };
        for segment in path {
            match segment.as_str() {
                "crate" => (),
                "super" => drop(from.pop()),
                _ => from.push(segment),
            }
        }
        from
    }

    /// Whether `#[cfg(test)]` begins here.
    fn is_for_tests(&self) -> bool {
        let [cfg, test] = ["cfg", "test"].map(|word| Token::Word(word.into()));
        let attribute = [
            Token::Mark('#'),
            Token::Mark('['),
            cfg,
            Token::Mark('('),
            test,
            Token::Mark(')'),
            Token::Mark(']'),
        ];
        self.tokens[self.at..].starts_with(&attribute)
    }

    /// Passes over an attribute and its item, to the end of its body or its semicolon.
    fn pass_over_item(&mut self) {
        self.at += 7;
        if self.word_at(0) == Some("mod") && self.is_at(2, &Token::Mark(';')) {
            let mut module = self.module.clone();
            module.extend(self.word_at(1).map(str::to_owned));
            self.found.test_modules.insert(module);
        }
        let mut depth = 0;
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            match token {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') if depth == 1 => return,
                Token::Mark('}') => depth -= 1,
                Token::Mark(';') if depth == 0 => return,
                _ => (),
            }
        }
    }

    fn open(&mut self, is_module: bool) {
        self.braces.push(is_module);
        self.at += 1;
    }

    fn close(&mut self) {
        if self.braces.pop() == Some(true) {
            self.module.pop();
        }
        self.at += 1;
    }

    fn is_at(&self, ahead: usize, token: &Token) -> bool {
        self.tokens.get(self.at + ahead) == Some(token)
    }

    fn word_at(&self, ahead: usize) -> Option<&str> {
        match self.tokens.get(self.at + ahead) {
            Some(Token::Word(word)) => Some(word),
            Some(Token::Separator | Token::Mark(_)) | None => None,
        }
    }
}

fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest, '"'),
            '\'' => character_or_lifetime(rest),
            _ if first.is_alphanumeric() || first == '_' => {
                let is_part = |c: char| c.is_alphanumeric() || c == '_';
                let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                let (word, behind) = rest.split_at(length);
                match raw_string(behind).filter(|_| matches!(word, "r" | "br" | "cr")) {
                    Some(raw) => length + raw,
                    None => {
                        tokens.push(Token::Word(word.to_owned()));
                        length
                    }
                }
            }
            ':' if rest.starts_with("::") => {
                tokens.push(Token::Separator);
                2
            }
            _ => {
                if !first.is_whitespace() {
                    tokens.push(Token::Mark(first));
                }
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    tokens
}

/// Comments nest.
fn block_comment(source: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        let rest = &source[at..];
        match rest.chars().next() {
            None => return at,
            Some('/') if rest.starts_with("/*") => (depth, at) = (depth + 1, at + 2),
            Some('*') if rest.starts_with("*/") => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            Some(other) => at += other.len_utf8(),
        }
    }
}

/// The length of a literal in these quotes, with both.
fn quoted(source: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in source.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => (),
        }
    }
    source.len()
}

/// The length of what follows `r` where a raw string does: `#"…"#`.
fn raw_string(source: &str) -> Option<usize> {
    let hashes = source.len() - source.trim_start_matches('#').len();
    let body = source[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(hashes + 1 + body.find(&end)? + end.len())
}

fn character_or_lifetime(source: &str) -> usize {
    let mut characters = source.chars().skip(1);
    match (characters.next(), characters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(source, '\''),
        _ => 1, // Of a lifetime, whose name follows as a word.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Vec<String> {
        path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    fn paths(source: &str, at: &str) -> Vec<String> {
        find(source, &module(at)).paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn groups_are_taken_apart_and_super_is_resolved() {
        for (source, at, expected) in [
            ("use crate::a::B;", "x", &["a::B"][..]),
            ("use crate::{a::{self, B as C, d::*}, e};", "x", &["a", "a::B", "a::d::*", "e"]),
            ("use super::{A, b::C};", "x::y", &["x::A", "x::b::C"]),
            ("use super::super::a;", "x::y", &["a"]),
            ("use super::*;", "x", &["*"]),
            (
                "fn f() { crate::a::g::<crate::b::T>(super::h()) }",
                "x::y",
                &["a::g", "b::T", "x::h"],
            ),
            ("mod inner { use super::A; } use super::B;", "x", &["B", "x::A"]),
            ("macro_rules! m { () => { $crate::a::b!() } }", "x", &["a::b"]),
            ("pub(in crate::a) fn f() {} pub(crate) fn g() {} pub(super) fn h() {}", "x", &[]),
        ] {
            assert_eq!(paths(source, at), expected, "{source}");
        }
    }

    #[test]
    fn comments_literals_and_tests_are_passed_over() {
        for source in [
            "// crate::a::B\n/* crate::a /* nested */ crate::b */",
            r###"const A: &str = "crate::a \" crate::b"; const B: &str = r#"crate::c " crate::d"#;"###,
            "fn f<'a>(x: &'a str) -> char { '\"' } // \" crate::a",
            "const Q: char = '\\''; // crate::a",
            "#[cfg(test)] mod tests { use crate::a::B; fn f() { { crate::c() } } }",
            "#[cfg(test)] use crate::a::B;",
        ] {
            assert_eq!(paths(source, "x"), [""; 0], "{source}");
        }
        assert_eq!(paths("#[cfg(test)] mod t { {} } use crate::a;", "x"), ["a"]);
        let found = find("#[cfg(test)]\nmod tests;", &module("x"));
        assert_eq!(found.test_modules, [module("x::tests")].into());
    }

    #[test]
    fn what_is_public_and_what_is_used_is_named() {
        let source = "pub struct A; pub(crate) const fn b() {} pub const C: u8 = 1; struct D; \
                      pub async fn e() {} pub use a::{F, g as H}; use i::*;";
        let found = find(source, &[]);
        let public: Vec<&str> = found.public.iter().map(String::as_str).collect();
        assert_eq!(public, ["A", "C", "b", "e"]);
        let uses = found.uses.iter().map(|(path, name)| format!("{} {name}", path.join("::")));
        assert_eq!(uses.collect::<Vec<_>>(), ["a::F F", "a::g H", "i::* *"]);
    }
}
