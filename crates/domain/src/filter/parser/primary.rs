//! What has no operator: constants, properties, functions, parentheses.

use super::{Parser, is_text};
use crate::filter::ast::{Expr, Property};
use crate::filter::lexer::{Keyword, Token};
use crate::{Excerpt, RuleError, SystemProperty, Value};

impl Parser<'_> {
    pub(super) fn number(&mut self, sign: &str) -> Result<Expr, RuleError> {
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

    pub(super) fn primary(&mut self) -> Result<Expr, RuleError> {
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
                return Err(self.error(at, self.wanted(), reserved(keyword)));
            }
            Token::Symbol(_) | Token::End => return Err(self.unexpected(&self.wanted())),
        }
        Ok(Expr::Constant(Value::Null))
    }

    /// "a value after '='".
    fn wanted(&self) -> String {
        match self.before() {
            Some(token) => format!("a value after {token}"),
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
        match *self.ahead(1) == Token::Symbol("(") {
            true => self.function(&name),
            false => self.property().map(Expr::Property),
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
    pub(super) fn property(&mut self) -> Result<Property, RuleError> {
        let at = self.next;
        let name = match self.peek().clone() {
            Token::Delimited(name) => {
                self.next += 1;
                return Ok(Property::User(name));
            }
            Token::Word(name) => name,
            Token::Keyword(keyword) => {
                return Err(self.error(at, "the name of a property", reserved(keyword)));
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
            return Err(
                self.unexpected(&format!("the name of a property after '{}.'", Excerpt(&name)))
            );
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
}

fn reserved(keyword: Keyword) -> String {
    let text = keyword.text();
    format!("the keyword {text} (a property of that name is [{text}])")
}

pub(super) fn known_system_names(which: impl Fn(SystemProperty) -> bool) -> String {
    let names: Vec<&str> =
        SystemProperty::all().filter(|p| which(*p)).map(SystemProperty::name).collect();
    format!("one of the system properties {}", names.join(", "))
}
