//! Tokens to a tree: recursive descent, one function per level of precedence (RULE-24, RULE-25).

use super::ast::{Comparison, Expr, Operator, Property, Sign, Statement};
use super::lexer::{Keyword, LexError, Lexeme, Token, lex};
use super::parameters::Parameters;
use super::{ACTION_EXPRESSIONS_MAX, RULE_NESTING_MAX, RULE_TEXT_CHARS_MAX};
use crate::{RuleError, RulePart, SystemProperty, Value};

/// A SQL filter's predicate.
pub(super) fn filter(text: &str, parameters: &Parameters) -> Result<Expr, RuleError> {
    let mut parser = Parser::new(RulePart::Filter, text, parameters)?;
    let at = parser.next;
    let predicate = parser.or()?;
    parser.check_condition(at, &predicate)?;
    match parser.peek() {
        Token::End => Ok(predicate),
        _ => Err(parser.unexpected("AND, OR or the end of the filter")),
    }
}

/// A SQL action's statements. Separators are optional: `action [;] { [,] action [;] }`.
pub(super) fn action(text: &str, parameters: &Parameters) -> Result<Vec<Statement>, RuleError> {
    let mut parser = Parser::new(RulePart::Action, text, parameters)?;
    let mut statements = vec![parser.statement()?];
    loop {
        parser.eat_symbol(";");
        if *parser.peek() == Token::End {
            return Ok(statements);
        }
        parser.eat_symbol(",");
        statements.push(parser.statement()?);
        if statements.len() > ACTION_EXPRESSIONS_MAX {
            return Err(RuleError::TooManyExpressions { max: ACTION_EXPRESSIONS_MAX });
        }
    }
}

struct Parser<'a> {
    part: RulePart,
    text: &'a str,
    lexemes: Vec<Lexeme>,
    next: usize,
    nesting: u32,
    parameters: &'a Parameters,
}

impl<'a> Parser<'a> {
    /// QUOTA-22 comes first: it bounds all further work.
    fn new(part: RulePart, text: &'a str, parameters: &'a Parameters) -> Result<Self, RuleError> {
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
    fn ahead(&self, places: usize) -> &Token {
        self.lexemes.get(self.next + places).map_or(&Token::End, |lexeme| &lexeme.token)
    }

    fn peek(&self) -> &Token {
        self.ahead(0)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn eat(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        self.next += usize::from(found);
        found
    }

    fn eat_symbol(&mut self, symbol: &'static str) -> bool {
        self.eat(&Token::Symbol(symbol))
    }

    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        self.eat(&Token::Keyword(keyword))
    }

    fn need_symbol(&mut self, symbol: &'static str, expected: &str) -> Result<(), RuleError> {
        match self.eat_symbol(symbol) {
            true => Ok(()),
            false => Err(self.unexpected(expected)),
        }
    }

    fn unexpected(&self, expected: &str) -> RuleError {
        self.error(self.next, expected, self.peek().to_string())
    }

    /// `at`: the place of a token.
    fn error(&self, at: usize, expected: impl Into<String>, found: impl Into<String>) -> RuleError {
        let (line, column) = self.place(at);
        let (expected, found) = (expected.into(), found.into());
        RuleError::Syntax { part: self.part, line, column, expected, found }
    }

    fn place(&self, at: usize) -> (usize, usize) {
        place(self.text, self.lexemes.get(at).map_or(self.text.len(), |lexeme| lexeme.at))
    }

    /// Runs what may come back here: what nests is bounded, the stack with it.
    fn nested<T>(
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

    fn or(&mut self) -> Result<Expr, RuleError> {
        self.chain(Keyword::Or, Parser::and, Expr::Or)
    }

    fn and(&mut self) -> Result<Expr, RuleError> {
        self.chain(Keyword::And, Parser::not, Expr::And)
    }

    fn chain(
        &mut self,
        keyword: Keyword,
        operand: fn(&mut Self) -> Result<Expr, RuleError>,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Result<Expr, RuleError> {
        let at = self.next;
        let first = operand(self)?;
        if *self.peek() != Token::Keyword(keyword) {
            return Ok(first);
        }
        self.check_condition(at, &first)?;
        let mut parts = vec![first];
        while self.eat_keyword(keyword) {
            let at = self.next;
            let part = operand(self)?;
            self.check_condition(at, &part)?;
            parts.push(part);
        }
        Ok(join(parts))
    }

    fn not(&mut self) -> Result<Expr, RuleError> {
        if !self.eat_keyword(Keyword::Not) {
            return self.relation();
        }
        let at = self.next;
        let operand = self.nested(Parser::not)?;
        self.check_condition(at, &operand)?;
        Ok(Expr::Not(operand.into()))
    }

    fn relation(&mut self) -> Result<Expr, RuleError> {
        let at = self.next;
        let left = self.sum()?;
        if let Some(comparison) = self.comparison() {
            self.check_value(at, &left)?;
            let right = self.value()?;
            return Ok(Expr::Compare(left.into(), comparison, right.into()));
        }
        if self.eat_keyword(Keyword::Is) {
            self.check_value(at, &left)?;
            let negated = self.eat_keyword(Keyword::Not);
            return match self.eat_keyword(Keyword::Null) {
                true => Ok(Expr::IsNull { value: left.into(), negated }),
                false => Err(self.unexpected("NULL or NOT NULL after IS")),
            };
        }
        let negated = self.eat_keyword(Keyword::Not);
        if self.eat_keyword(Keyword::In) {
            self.check_value(at, &left)?;
            let list = self.list()?;
            return Ok(Expr::In { value: left.into(), list, negated });
        }
        if self.eat_keyword(Keyword::Like) {
            self.check_value(at, &left)?;
            return self.like(left, negated);
        }
        match negated {
            true => Err(self.unexpected("IN or LIKE after NOT")),
            false => Ok(left),
        }
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let comparison = match self.peek() {
            Token::Symbol("=") => Comparison::Equal,
            Token::Symbol("<>" | "!=") => Comparison::NotEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterOrEqual,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessOrEqual,
            _ => return None,
        };
        self.next += 1;
        Some(comparison)
    }

    fn list(&mut self) -> Result<Vec<Expr>, RuleError> {
        self.need_symbol("(", "'(' after IN")?;
        let mut list = vec![self.value()?];
        while self.eat_symbol(",") {
            list.push(self.value()?);
        }
        self.need_symbol(")", "',' or ')' in the list after IN")?;
        Ok(list)
    }

    /// RULE-32: what is written out is checked here, what comes from properties when it is evaluated.
    fn like(&mut self, value: Expr, negated: bool) -> Result<Expr, RuleError> {
        let at = self.next;
        let pattern = self.value()?;
        if self.constant(&pattern).is_some_and(|value| !is_text(value)) {
            return Err(self.error(at, "a text as the pattern", format!("{pattern}")));
        }
        let mut escape = None;
        if self.eat_keyword(Keyword::Escape) {
            let at = self.next;
            let character = self.value()?;
            if self.constant(&character).is_some_and(|value| !is_text_of_one(value)) {
                let expected = "a text of one character after ESCAPE";
                return Err(self.error(at, expected, format!("{character}")));
            }
            escape = Some(character.into());
        }
        Ok(Expr::Like { value: value.into(), pattern: pattern.into(), escape, negated })
    }

    /// An expression that is no predicate.
    fn value(&mut self) -> Result<Expr, RuleError> {
        let at = self.next;
        let value = self.sum()?;
        self.check_value(at, &value)?;
        Ok(value)
    }

    fn sum(&mut self) -> Result<Expr, RuleError> {
        self.arithmetic(false, Parser::product)
    }

    fn product(&mut self) -> Result<Expr, RuleError> {
        self.arithmetic(true, Parser::sign)
    }

    fn arithmetic(
        &mut self,
        products: bool,
        operand: fn(&mut Self) -> Result<Expr, RuleError>,
    ) -> Result<Expr, RuleError> {
        let at = self.next;
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.operator(products) {
            if rest.is_empty() {
                self.check_value(at, &first)?;
            }
            let at = self.next;
            let next = operand(self)?;
            self.check_value(at, &next)?;
            rest.push((operator, next));
        }
        match rest.is_empty() {
            true => Ok(first),
            false => Ok(Expr::Arithmetic(first.into(), rest)),
        }
    }

    fn operator(&mut self, products: bool) -> Option<Operator> {
        let operator = match self.peek() {
            Token::Symbol("+") => Operator::Add,
            Token::Symbol("-") => Operator::Subtract,
            Token::Symbol("*") => Operator::Multiply,
            Token::Symbol("/") => Operator::Divide,
            Token::Symbol("%") => Operator::Remainder,
            _ => return None,
        };
        let found = operator.is_product() == products;
        self.next += usize::from(found);
        found.then_some(operator)
    }

    fn sign(&mut self) -> Result<Expr, RuleError> {
        let sign = match self.peek() {
            Token::Symbol("+") => Sign::Plus,
            Token::Symbol("-") => Sign::Minus,
            _ => return self.primary(),
        };
        self.next += 1;
        // The least integer has no positive twin, so a minus belongs to the number after it.
        if sign == Sign::Minus && matches!(self.peek(), Token::Integer(_) | Token::Double(_)) {
            return self.number("-");
        }
        let at = self.next;
        let operand = self.nested(Parser::sign)?;
        self.check_value(at, &operand)?;
        Ok(Expr::Sign(sign, operand.into()))
    }

    fn number(&mut self, sign: &str) -> Result<Expr, RuleError> {
        let at = self.next;
        match self.take() {
            Token::Integer(digits) => match format!("{sign}{digits}").parse() {
                Ok(value) => Ok(Expr::Constant(Value::Long(value))),
                Err(_) => {
                    let expected = "an integer of 64 bits (a number with a point may be larger)";
                    Err(self.error(at, expected, format!("{sign}{digits}")))
                }
            },
            Token::Double(value) if sign == "-" => Ok(Expr::Constant(Value::Double(-value))),
            Token::Double(value) => Ok(Expr::Constant(Value::Double(value))),
            other => Err(self.error(at, "a number", other.to_string())),
        }
    }

    fn primary(&mut self) -> Result<Expr, RuleError> {
        let at = self.next;
        match self.peek().clone() {
            Token::Integer(_) | Token::Double(_) => return self.number(""),
            Token::Word(name) => return self.word(name),
            Token::Delimited(name) => {
                self.next += 1;
                return Ok(Expr::Property(Property::User(name)));
            }
            Token::Text(text) => {
                self.next += 1;
                return Ok(Expr::Constant(Value::String(text)));
            }
            Token::Parameter(name) => {
                self.next += 1;
                return match self.parameters.get(&name) {
                    Some(_) => Ok(Expr::Parameter(name)),
                    None => Err(self.error(at, "a parameter that has a value", format!("@{name}"))),
                };
            }
            Token::Symbol("(") => {
                self.next += 1;
                let inner = self.nested(Parser::or)?;
                self.need_symbol(")", "an operator or ')'")?;
                return Ok(inner);
            }
            Token::Keyword(Keyword::Exists) => {
                self.next += 1;
                return self.exists();
            }
            Token::Keyword(Keyword::Null) => self.next += 1,
            Token::Keyword(keyword @ (Keyword::True | Keyword::False)) => {
                self.next += 1;
                return Ok(Expr::Constant(Value::Bool(keyword == Keyword::True)));
            }
            Token::Keyword(keyword) => {
                let text = keyword.text();
                let found = format!("the keyword {text} (a property of that name is [{text}])");
                return Err(self.error(at, self.wanted(), found));
            }
            Token::Symbol(_) | Token::End => return Err(self.unexpected(&self.wanted())),
        }
        Ok(Expr::Constant(Value::Null))
    }

    /// "a value after '='".
    fn wanted(&self) -> String {
        match self.next.checked_sub(1).and_then(|before| self.lexemes.get(before)) {
            Some(before) => format!("a value after {}", before.token),
            None => "a value".to_owned(),
        }
    }

    fn exists(&mut self) -> Result<Expr, RuleError> {
        self.need_symbol("(", "'(' after EXISTS")?;
        let at = self.next;
        let property = self.primary()?;
        if !matches!(property, Expr::Property(_) | Expr::Named(_)) {
            return Err(self.error(at, "a property", format!("{property}")));
        }
        self.need_symbol(")", "')' after the property")?;
        Ok(Expr::Exists(property.into()))
    }

    /// A property, with or without scope, or a function.
    fn word(&mut self, name: String) -> Result<Expr, RuleError> {
        match self.ahead(1) {
            Token::Symbol("(") => self.function(&name),
            Token::Symbol(_)
            | Token::Word(_)
            | Token::Delimited(_)
            | Token::Keyword(_)
            | Token::Integer(_)
            | Token::Double(_)
            | Token::Text(_)
            | Token::Parameter(_)
            | Token::End => self.property().map(Expr::Property),
        }
    }

    /// RULE-28.
    fn function(&mut self, name: &str) -> Result<Expr, RuleError> {
        let at = self.next;
        self.next += 2;
        if name.eq_ignore_ascii_case("newid") {
            self.need_symbol(")", "')': newid() takes nothing")?;
            return Ok(Expr::NewId);
        }
        if !name.eq_ignore_ascii_case("property") && !name.eq_ignore_ascii_case("p") {
            let expected = "one of the functions newid(), property(x) and p(x)";
            return Err(self.error(at, expected, format!("the function '{name}'")));
        }
        // A bare name is the property's name itself; anything else yields it.
        if let (Token::Word(name) | Token::Delimited(name), Token::Symbol(")")) =
            (self.peek(), self.ahead(1))
        {
            let name = name.clone();
            self.next += 2;
            return Ok(Expr::Property(Property::User(name)));
        }
        let at = self.next;
        let argument = self.nested(Parser::value)?;
        if self.constant(&argument).is_some_and(|value| !is_text(value)) {
            return Err(self.error(at, "a text that names a property", format!("{argument}")));
        }
        self.need_symbol(")", "an operator or ')'")?;
        Ok(Expr::Named(argument.into()))
    }

    /// `[sys.|user.] name`.
    fn property(&mut self) -> Result<Property, RuleError> {
        let at = self.next;
        let name = match self.peek().clone() {
            Token::Delimited(name) => {
                self.next += 1;
                return Ok(Property::User(name));
            }
            Token::Word(name) => name,
            Token::Keyword(keyword) => {
                let text = keyword.text();
                let found = format!("the keyword {text} (a property of that name is [{text}])");
                return Err(self.error(at, "the name of a property", found));
            }
            _ => return Err(self.unexpected("the name of a property")),
        };
        self.next += 1;
        if !self.eat_symbol(".") {
            return Ok(Property::User(name));
        }
        let is_system = name.eq_ignore_ascii_case("sys");
        if !is_system && !name.eq_ignore_ascii_case("user") {
            let expected =
                "the scope sys or user before '.' (a name with a point is written [a.b])";
            return Err(self.error(at, expected, format!("'{name}'")));
        }
        let at = self.next;
        let (Token::Word(name) | Token::Delimited(name)) = self.peek().clone() else {
            return Err(self.unexpected(&format!("the name of a property after '{name}.'")));
        };
        self.next += 1;
        if !is_system {
            return Ok(Property::User(name));
        }
        match SystemProperty::named(&name) {
            Some(property) => Ok(Property::System(property)),
            None => Err(self.error(at, known_system_names(|_| true), format!("'{name}'"))),
        }
    }

    fn statement(&mut self) -> Result<Statement, RuleError> {
        if self.eat_keyword(Keyword::Set) {
            let at = self.next;
            let property = self.property()?;
            if let Property::System(system) = property
                && !system.is_settable()
            {
                let expected = known_system_names(SystemProperty::is_settable);
                return Err(self.error(at, expected, format!("{system}, which is read-only")));
            }
            self.need_symbol("=", "'=' after the property to set")?;
            return Ok(Statement::Set(property, self.value()?));
        }
        if self.eat_keyword(Keyword::Remove) {
            let at = self.next;
            return match self.property()? {
                Property::User(name) => Ok(Statement::Remove(name)),
                Property::System(system) => {
                    Err(self.error(at, "a user property to remove", format!("{system}")))
                }
            };
        }
        Err(self.unexpected("SET or REMOVE"))
    }

    /// What an expression is known to be before any message comes.
    fn constant<'e>(&'e self, expr: &'e Expr) -> Option<&'e Value> {
        match expr {
            Expr::Constant(value) => Some(value),
            Expr::Parameter(name) => self.parameters.get(name),
            _ => None,
        }
    }

    fn check_value(&self, at: usize, expr: &Expr) -> Result<(), RuleError> {
        match expr.is_predicate() {
            true => Err(self.error(at, "a value", format!("the condition {expr}"))),
            false => Ok(()),
        }
    }

    /// RULE-25: a bare value may be a condition where it may be true, false or unknown.
    fn check_condition(&self, at: usize, expr: &Expr) -> Result<(), RuleError> {
        let may_hold = match expr {
            Expr::NewId | Expr::Sign(..) | Expr::Arithmetic(..) => false,
            _ => self.constant(expr).is_none_or(|v| matches!(v, Value::Bool(_) | Value::Null)),
        };
        match may_hold {
            true => Ok(()),
            false => Err(self.error(at, "a condition", format!("the value {expr}"))),
        }
    }
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Null)
}

fn is_text_of_one(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().count() == 1,
        other => *other == Value::Null,
    }
}

fn known_system_names(which: impl Fn(SystemProperty) -> bool) -> String {
    let names: Vec<&str> =
        SystemProperty::all().filter(|p| which(*p)).map(SystemProperty::name).collect();
    format!("one of the system properties {}", names.join(", "))
}

/// Line and column of a byte, in characters, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap_or(before);
    (1 + before.matches('\n').count(), 1 + line.chars().count())
}
