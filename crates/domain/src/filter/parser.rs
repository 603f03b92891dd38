//! Tokens to a tree: recursive descent, one function per level of precedence (RULE-24, RULE-25).

mod cursor;
mod primary;
mod statement;

use cursor::Parser;

use super::ACTION_EXPRESSIONS_MAX;
use super::ast::{Comparison, Expr, Operator, Sign, Statement};
use super::lexer::{Keyword, Token};
use super::parameters::Parameters;
use crate::{RuleError, RulePart, Value};

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

impl Parser<'_> {
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
