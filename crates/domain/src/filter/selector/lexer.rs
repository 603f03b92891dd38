//! A selector's text to tokens (SEL-2).

use super::SelectorError;
use crate::{Excerpt, Value};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum SelectorToken {
    Name(String),
    Word(ReservedWord),
    /// Digits of an integer, and their base: whether they fit depends on a sign before them.
    Integer(String, u32),
    Double(f64),
    Text(String),
    Symbol(&'static str),
    End,
}

/// What is no name, in whatever case it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservedWord {
    And,
    Between,
    Escape,
    False,
    In,
    Is,
    Like,
    Not,
    Null,
    Or,
    True,
}

const WORDS: [(&str, ReservedWord); 11] = [
    ("AND", ReservedWord::And),
    ("BETWEEN", ReservedWord::Between),
    ("ESCAPE", ReservedWord::Escape),
    ("FALSE", ReservedWord::False),
    ("IN", ReservedWord::In),
    ("IS", ReservedWord::Is),
    ("LIKE", ReservedWord::Like),
    ("NOT", ReservedWord::Not),
    ("NULL", ReservedWord::Null),
    ("OR", ReservedWord::Or),
    ("TRUE", ReservedWord::True),
];

/// Longer ones before those that they begin with.
const SYMBOLS: [&str; 14] =
    ["<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "+", "-", "*", "/", "%"];

/// A token and the character at which it begins, from 1.
pub(super) struct SelectorLexeme {
    pub token: SelectorToken,
    pub column: usize,
    /// As it is written.
    pub text: String,
}

/// All tokens; the last is `End`.
pub(super) fn lex(text: &str) -> Result<Vec<SelectorLexeme>, SelectorError> {
    let mut lexer = SelectorLexer { text, at: 0 };
    let mut lexemes = Vec::new();
    loop {
        lexer.skip(char::is_whitespace);
        let from = lexer.at;
        let token = lexer.token()?;
        let is_end = token == SelectorToken::End;
        let text = lexer.text[from..lexer.at].to_owned();
        lexemes.push(SelectorLexeme { token, column: lexer.column(from), text });
        if is_end {
            return Ok(lexemes);
        }
    }
}

struct SelectorLexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> SelectorLexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn column(&self, at: usize) -> usize {
        1 + self.text[..at].chars().count()
    }

    fn skip(&mut self, part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn token(&mut self) -> Result<SelectorToken, SelectorError> {
        let rest = self.rest();
        let mut chars = rest.chars();
        let Some(first) = chars.next() else { return Ok(SelectorToken::End) };
        let is_number = first.is_ascii_digit()
            || first == '.' && chars.next().is_some_and(|c| c.is_ascii_digit());
        if is_number {
            return self.number();
        }
        match first {
            '\'' => self.enclosed('\'', "a closing ' of the text").map(SelectorToken::Text),
            '"' => self.enclosed('"', "a closing \" of the name").map(SelectorToken::Name),
            c if begins_name(c) => {
                let word = self.skip(|c| begins_name(c) || c.is_alphanumeric() || c == '.');
                let reserved = WORDS.iter().find(|(text, _)| text.eq_ignore_ascii_case(word));
                Ok(match reserved {
                    Some((_, word)) => SelectorToken::Word(*word),
                    None => SelectorToken::Name(word.to_owned()),
                })
            }
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    Ok(SelectorToken::Symbol(symbol))
                }
                None => Err(self.error(self.at, "a name, a value or an operator")),
            },
        }
    }

    /// Up to the closing character, which stands for itself where it is doubled.
    fn enclosed(&mut self, close: char, expected: &'static str) -> Result<String, SelectorError> {
        let start = self.at;
        self.at += 1;
        let mut content = String::new();
        loop {
            let rest = self.rest();
            let Some(end) = rest.find(close) else { return Err(self.error(start, expected)) };
            content.push_str(&rest[..end]);
            self.at += end + 1;
            if !self.rest().starts_with(close) {
                return Ok(content);
            }
            content.push(close);
            self.at += 1;
        }
    }

    /// Literals of Java: `57`, `1_000L`, `0x1F`, `017`, `0b11`; `7.`, `.5`, `7E3`, `1.5f`, `2d`.
    fn number(&mut self) -> Result<SelectorToken, SelectorError> {
        let start = self.at;
        for (prefixes, base) in [(["0x", "0X"], 16), (["0b", "0B"], 2)] {
            if prefixes.iter().any(|prefix| self.eat(prefix)) {
                let digits = self.digits(base);
                return self.integer(start, digits, base);
            }
        }
        let whole = self.digits(10);
        let mut is_integer = true;
        if self.eat(".") {
            is_integer = false;
            self.digits(10);
        }
        if self.eat("e") || self.eat("E") {
            is_integer = false;
            let _ = self.eat("+") || self.eat("-");
            if self.digits(10).is_empty() {
                return Err(self.error(self.at, "a digit of the exponent"));
            }
        }
        let written = self.text[start..self.at].replace('_', "");
        let is_marked = ["f", "F", "d", "D"].iter().any(|mark| self.eat(mark));
        if is_integer && !is_marked {
            // As in Java: a leading 0 makes it octal.
            return match whole.strip_prefix('0').filter(|octal| !octal.is_empty()) {
                Some(octal) => self.integer(start, octal.to_owned(), 8),
                None => self.integer(start, whole, 10),
            };
        }
        self.end_number()?;
        match written.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(SelectorToken::Double(value)),
            Ok(_) | Err(_) => Err(self.error(start, "a number of at most 1.7976931348623157E308")),
        }
    }

    fn integer(
        &mut self,
        start: usize,
        digits: String,
        base: u32,
    ) -> Result<SelectorToken, SelectorError> {
        let _ = self.eat("l") || self.eat("L");
        self.end_number()?;
        match !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base)) {
            true => Ok(SelectorToken::Integer(digits, base)),
            false => Err(self.error(start, "an integer as Java writes it")),
        }
    }

    fn digits(&mut self, base: u32) -> String {
        self.skip(|c| c.is_digit(base) || c == '_').replace('_', "")
    }

    /// `5abc` is a slip, not two tokens.
    fn end_number(&self) -> Result<(), SelectorError> {
        let next = self.rest().chars().next();
        match next.is_some_and(|c| begins_name(c) || c.is_alphanumeric()) {
            true => Err(self.error(self.at, "a space or an operator after the number")),
            false => Ok(()),
        }
    }

    fn error(&self, at: usize, expected: &'static str) -> SelectorError {
        let found = match self.text[at..].chars().next() {
            None => "end of text".to_owned(),
            Some(c) if c.is_ascii_graphic() => format!("'{c}'"),
            // What cannot be seen, or looks like something else, is named.
            Some(c) => format!("the character U+{:04X}", u32::from(c)),
        };
        SelectorError::Syntax { column: self.column(at), expected, found }
    }
}

impl SelectorLexeme {
    /// As an error calls it.
    pub fn told(&self) -> String {
        match &self.token {
            SelectorToken::End => "end of text".to_owned(),
            _ => format!("'{}'", Excerpt(&self.text)),
        }
    }
}

/// As Java begins identifiers.
fn begins_name(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

/// An integer, if it fits into 64 bits.
pub(super) fn integer(sign: &str, digits: &str, base: u32) -> Option<Value> {
    i64::from_str_radix(&format!("{sign}{digits}"), base).ok().map(Value::Long)
}
