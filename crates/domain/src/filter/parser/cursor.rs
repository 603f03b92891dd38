//! The tokens of a text and where reading stands among them.

use crate::filter::lexer::{Keyword, LexError, Lexeme, Token, lex};
use crate::filter::parameters::Parameters;
use crate::filter::{RULE_NESTING_MAX, RULE_TEXT_CHARS_MAX};
use crate::{Excerpt, RuleError, RulePart};

/// Reads one text. The functions of the grammar are in the files around this one.
pub(super) struct Parser<'a> {
    part: RulePart,
    text: &'a str,
    lexemes: Vec<Lexeme>,
    pub(super) next: usize,
    nesting: u32,
    pub(super) parameters: &'a Parameters,
}

impl<'a> Parser<'a> {
    /// QUOTA-22 comes first: it bounds all further work.
    pub(super) fn new(
        part: RulePart,
        text: &'a str,
        parameters: &'a Parameters,
    ) -> Result<Self, RuleError> {
        let chars = text.chars().count();
        if chars > RULE_TEXT_CHARS_MAX {
            return Err(RuleError::TooLong { part, chars, max: RULE_TEXT_CHARS_MAX });
        }
        let lexemes = lex(text).map_err(|LexError { at, expected, found }| {
            let (line, column) = place(text, at);
            RuleError::Syntax { part, line, column, expected, found }
        })?;
        Ok(Parser { part, text, lexemes, next: 0, nesting: 0, parameters })
    }

    /// The token so many places on; beyond the end is the end.
    pub(super) fn ahead(&self, places: usize) -> &Token {
        self.lexemes.get(self.next + places).map_or(&Token::End, |lexeme| &lexeme.token)
    }

    pub(super) fn before(&self) -> Option<&Token> {
        self.lexemes.get(self.next.checked_sub(1)?).map(|lexeme| &lexeme.token)
    }

    pub(super) fn peek(&self) -> &Token {
        self.ahead(0)
    }

    pub(super) fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    pub(super) fn eat(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        self.next += usize::from(found);
        found
    }

    pub(super) fn eat_symbol(&mut self, symbol: &'static str) -> bool {
        self.eat(&Token::Symbol(symbol))
    }

    pub(super) fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        self.eat(&Token::Keyword(keyword))
    }

    pub(super) fn need_symbol(
        &mut self,
        symbol: &'static str,
        expected: &str,
    ) -> Result<(), RuleError> {
        match self.eat_symbol(symbol) {
            true => Ok(()),
            false => Err(self.unexpected(expected)),
        }
    }

    pub(super) fn unexpected(&self, expected: &str) -> RuleError {
        self.error(self.next, expected, self.peek().to_string())
    }

    /// `at`: the place of a token.
    pub(super) fn error(
        &self,
        at: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> RuleError {
        let (line, column) = self.place(at);
        let (expected, found) = (expected.into(), Excerpt(&found.into()).to_string());
        RuleError::Syntax { part: self.part, line, column, expected, found }
    }

    pub(super) fn place(&self, at: usize) -> (usize, usize) {
        place(self.text, self.lexemes.get(at).map_or(self.text.len(), |lexeme| lexeme.at))
    }

    /// Runs what may come back here: what nests is bounded, the stack with it.
    pub(super) fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, RuleError>,
    ) -> Result<T, RuleError> {
        if self.nesting == RULE_NESTING_MAX {
            let (line, column) = self.place(self.next);
            let (part, max) = (self.part, RULE_NESTING_MAX);
            return Err(RuleError::TooDeep { part, line, column, max });
        }
        self.nesting += 1;
        let result = inner(self);
        self.nesting -= 1;
        result
    }
}

/// Line and column of a byte, in characters, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap_or(before);
    (1 + before.matches('\n').count(), 1 + line.chars().count())
}
