//! Text to tokens (RULE-22, RULE-23, RULE-26, RULE-27).

use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A regular identifier.
    Word(String),
    /// `[any]` or `"any"`: never a keyword, a scope or a function.
    Delimited(String),
    Keyword(Keyword),
    /// Digits as written: whether they fit depends on a sign before them.
    Integer(String),
    Double(f64),
    Text(String),
    /// Without its `@`.
    Parameter(String),
    Symbol(&'static str),
    End,
}

/// As an error message calls it.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(name) | Token::Delimited(name) => write!(f, "the name '{name}'"),
            Token::Keyword(keyword) => write!(f, "the keyword {}", keyword.text()),
            Token::Integer(digits) => write!(f, "the number {digits}"),
            Token::Double(value) => write!(f, "the number {value:?}"),
            Token::Text(text) => write!(f, "the text '{}'", text.replace('\'', "''")),
            Token::Parameter(name) => write!(f, "@{name}"),
            Token::Symbol(symbol) => write!(f, "'{symbol}'"),
            Token::End => write!(f, "end of text"),
        }
    }
}

/// RULE-23: exactly these cannot be bare names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    And,
    Or,
    Not,
    Is,
    Null,
    In,
    Like,
    Escape,
    Exists,
    True,
    False,
    Set,
    Remove,
}

const KEYWORDS: [(&str, Keyword); 13] = [
    ("AND", Keyword::And),
    ("OR", Keyword::Or),
    ("NOT", Keyword::Not),
    ("IS", Keyword::Is),
    ("NULL", Keyword::Null),
    ("IN", Keyword::In),
    ("LIKE", Keyword::Like),
    ("ESCAPE", Keyword::Escape),
    ("EXISTS", Keyword::Exists),
    ("TRUE", Keyword::True),
    ("FALSE", Keyword::False),
    ("SET", Keyword::Set),
    ("REMOVE", Keyword::Remove),
];

impl Keyword {
    fn named(word: &str) -> Option<Keyword> {
        KEYWORDS.iter().find(|(text, _)| text.eq_ignore_ascii_case(word)).map(|(_, found)| *found)
    }

    pub fn text(self) -> &'static str {
        KEYWORDS.iter().find(|(_, keyword)| *keyword == self).map_or("", |(text, _)| text)
    }
}

/// A token and the byte at which it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lexeme {
    pub token: Token,
    pub at: usize,
}

/// Where lexing stopped, and why.
pub(super) struct LexError {
    pub at: usize,
    pub expected: String,
    pub found: String,
}

/// All tokens of a text; the last is `End`.
pub(super) fn lex(text: &str) -> Result<Vec<Lexeme>, LexError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut lexemes = Vec::new();
    loop {
        lexer.skip(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
        let at = lexer.at;
        let token = lexer.token()?;
        let is_end = token == Token::End;
        lexemes.push(Lexeme { token, at });
        if is_end {
            return Ok(lexemes);
        }
    }
}

/// Whether a name can be written bare (RULE-23, RULE-26).
pub(super) fn is_bare(name: &str) -> bool {
    name.starts_with(is_letter) && name.chars().all(is_name_part) && Keyword::named(name).is_none()
}

fn is_name_part(c: char) -> bool {
    is_letter(c) || c.is_ascii_digit() || c == '_'
}

/// Blocks beyond ASCII that hold spaces, punctuation, symbols and unassigned places.
const NO_LETTERS: &[(char, char)] = &[
    ('\u{80}', '\u{a9}'),
    ('\u{ab}', '\u{b4}'),
    ('\u{b6}', '\u{b9}'),
    ('\u{bb}', '\u{bf}'),
    ('\u{d7}', '\u{d7}'),
    ('\u{f7}', '\u{f7}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{2070}'),
    ('\u{2072}', '\u{207e}'),
    ('\u{2080}', '\u{208f}'),
    ('\u{20a0}', '\u{20ff}'),
    ('\u{2190}', '\u{24b5}'),
    ('\u{24ea}', '\u{2bff}'),
    ('\u{2e00}', '\u{2e2e}'),
    ('\u{2e30}', '\u{3004}'),
    ('\u{3008}', '\u{3020}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{fe00}', '\u{fe6f}'),
    ('\u{feff}', '\u{ff20}'),
    ('\u{fff0}', '\u{ffff}'),
    ('\u{f0000}', '\u{10ffff}'),
];

/// RULE-26, with letters beyond ASCII held in a table of this file: `char::is_alphabetic` grows with
/// the compiler, and replicas of two builds must read a rule alike. Where the table is coarse it
/// takes more for a letter than Unicode does.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
        || !c.is_ascii() && !NO_LETTERS.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// Longer ones first: `<=` is not `<` and `=`.
const SYMBOLS: [&str; 17] =
    ["<>", "!=", ">=", "<=", "=", ">", "<", "+", "-", "*", "/", "%", "(", ")", ",", ".", ";"];

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self, part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn token(&mut self) -> Result<Token, LexError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        match first {
            '\'' => self.enclosed('\'', "closing ' of the text").map(Token::Text),
            '"' => self.name('"', "closing \" of the name"),
            '[' => self.name(']', "closing ] of the name"),
            '@' => self.parameter(),
            c if c.is_ascii_digit() => self.number(),
            c if is_letter(c) => Ok(self.word()),
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    Ok(Token::Symbol(symbol))
                }
                None => Err(self.error(self.at, "a name, a value or an operator")),
            },
        }
    }

    fn word(&mut self) -> Token {
        let word = self.skip(is_name_part);
        match Keyword::named(word) {
            Some(keyword) => Token::Keyword(keyword),
            None => Token::Word(word.to_owned()),
        }
    }

    fn parameter(&mut self) -> Result<Token, LexError> {
        self.at += 1;
        if !self.rest().starts_with(is_letter) {
            return Err(self.error(self.at, "the name of a parameter after '@'"));
        }
        Ok(Token::Parameter(self.skip(is_name_part).to_owned()))
    }

    fn name(&mut self, close: char, what: &str) -> Result<Token, LexError> {
        let at = self.at;
        let name = self.enclosed(close, what)?;
        match name.is_empty() {
            true => Err(LexError {
                at,
                expected: "a name between the delimiters".to_owned(),
                found: "none".to_owned(),
            }),
            false => Ok(Token::Delimited(name)),
        }
    }

    /// Up to the closing character, which stands for itself where it is doubled.
    fn enclosed(&mut self, close: char, what: &str) -> Result<String, LexError> {
        let start = self.at;
        self.at += 1;
        let mut content = String::new();
        loop {
            let rest = self.rest();
            let Some(end) = rest.find(close) else {
                let (expected, found) =
                    (format!("a {what} that begins here"), "end of text".into());
                return Err(LexError { at: start, expected, found });
            };
            content.push_str(&rest[..end]);
            self.at += end + 1;
            if !self.rest().starts_with(close) {
                return Ok(content);
            }
            content.push(close);
            self.at += 1;
        }
    }

    /// RULE-27. A number ends where nothing of a name follows: `5abc` is a slip, not two tokens.
    fn number(&mut self) -> Result<Token, LexError> {
        let start = self.at;
        self.skip(|c| c.is_ascii_digit());
        let mut is_integer = true;
        if self.rest().starts_with('.') {
            is_integer = false;
            self.at += 1;
            self.digits("a digit after the point")?;
        }
        if self.rest().starts_with(['e', 'E']) {
            is_integer = false;
            self.at += 1;
            if self.rest().starts_with(['+', '-']) {
                self.at += 1;
            }
            self.digits("a digit of the exponent")?;
        }
        if self.rest().starts_with(is_name_part) {
            return Err(self.error(self.at, "a space or an operator after the number"));
        }
        let written = &self.text[start..self.at];
        if is_integer {
            return Ok(Token::Integer(written.to_owned()));
        }
        match written.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Token::Double(value)),
            Ok(_) | Err(_) => Err(LexError {
                at: start,
                expected: "a number of at most 1.7976931348623157E308".to_owned(),
                found: written.to_owned(),
            }),
        }
    }

    fn digits(&mut self, expected: &str) -> Result<(), LexError> {
        match self.skip(|c| c.is_ascii_digit()) {
            "" => Err(self.error(self.at, expected)),
            _ => Ok(()),
        }
    }

    fn error(&self, at: usize, expected: &str) -> LexError {
        let found = match self.text[at..].chars().next() {
            None => Token::End.to_string(),
            Some(c) if c.is_ascii_graphic() => format!("'{c}'"),
            // What cannot be seen, or looks like something else, is named.
            Some(c) => format!("the character U+{:04X}", u32::from(c)),
        };
        LexError { at, expected: expected.to_owned(), found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What this build's Unicode takes for a letter is one here, and no space is.
    #[test]
    fn rule_26_letters_beyond_ascii_are_those_of_unicode_and_some_more() {
        let missed: Vec<char> =
            ('\u{80}'..=char::MAX).filter(|c| c.is_alphabetic() && !is_letter(*c)).collect();
        assert!(missed.is_empty(), "{:?}", &missed[..missed.len().min(20)]);
        assert!(!('\u{80}'..=char::MAX).any(|c| c.is_whitespace() && is_letter(c)));
    }
}
