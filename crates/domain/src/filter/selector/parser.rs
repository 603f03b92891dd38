//! Tokens to a selector: recursive descent, one function per level of precedence (SEL-2).

use super::lexer::{ReservedWord, SelectorLexeme, SelectorToken, integer, lex};
use super::{Computation, Condition, SELECTOR_CHARS_MAX, SelectorError};
use crate::Value;
use crate::filter::RULE_NESTING_MAX;
use crate::filter::ast::{Comparison, Operator};
use crate::filter::like::Pattern;

/// Headers of JMS that a selector may not name (SEL-4).
const OTHER_HEADERS: [&str; 5] =
    ["JMSDeliveryTime", "JMSDestination", "JMSExpiration", "JMSRedelivered", "JMSReplyTo"];

pub(super) fn selector(text: &str) -> Result<Condition, SelectorError> {
    let chars = text.chars().count();
    if chars > SELECTOR_CHARS_MAX {
        return Err(SelectorError::TooLong { chars, max: SELECTOR_CHARS_MAX });
    }
    let mut parser = SelectorParser { lexemes: lex(text)?, next: 0, nesting: 0 };
    let condition = parser.or()?.condition()?;
    match parser.peek() {
        SelectorToken::End => Ok(condition),
        _ => Err(parser.unexpected("AND, OR or the end of the selector")),
    }
}

/// What was read: the grammar cannot tell `(flag)` from `(a)` before it knows what follows.
enum Parsed {
    Condition(Condition),
    /// And where it begins.
    Computation(Computation, SelectorPlace),
}

/// The column of what is at fault, and its words.
struct SelectorPlace(usize, String);

impl SelectorPlace {
    fn expected(self, expected: &'static str) -> SelectorError {
        SelectorError::Syntax { column: self.0, expected, found: self.1 }
    }
}

impl Parsed {
    fn condition(self) -> Result<Condition, SelectorError> {
        match self {
            Parsed::Condition(condition) => Ok(condition),
            Parsed::Computation(Computation::Name(name), _) => Ok(Condition::Flag(name)),
            Parsed::Computation(Computation::Constant(Value::Bool(truth)), _) => {
                Ok(Condition::Constant(truth))
            }
            Parsed::Computation(_, place) => Err(place.expected("a condition")),
        }
    }
}

struct SelectorParser {
    lexemes: Vec<SelectorLexeme>,
    next: usize,
    nesting: u32,
}

impl SelectorParser {
    fn lexeme(&self, at: usize) -> &SelectorLexeme {
        &self.lexemes[at.min(self.lexemes.len() - 1)]
    }

    fn peek(&self) -> &SelectorToken {
        &self.lexeme(self.next).token
    }

    fn place(&self, at: usize) -> SelectorPlace {
        let lexeme = self.lexeme(at);
        SelectorPlace(lexeme.column, lexeme.told())
    }

    fn unexpected(&self, expected: &'static str) -> SelectorError {
        self.place(self.next).expected(expected)
    }

    fn eat_word(&mut self, word: ReservedWord) -> bool {
        let found = *self.peek() == SelectorToken::Word(word);
        self.next += usize::from(found);
        found
    }

    fn eat_symbol(&mut self, symbol: &'static str) -> bool {
        let found = *self.peek() == SelectorToken::Symbol(symbol);
        self.next += usize::from(found);
        found
    }

    fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, SelectorError>,
    ) -> Result<T, SelectorError> {
        if self.nesting == RULE_NESTING_MAX {
            let column = self.lexeme(self.next).column;
            return Err(SelectorError::TooDeep { column, max: RULE_NESTING_MAX });
        }
        self.nesting += 1;
        let result = inner(self);
        self.nesting -= 1;
        result
    }

    fn or(&mut self) -> Result<Parsed, SelectorError> {
        self.chain(ReservedWord::Or, SelectorParser::and, Condition::Or)
    }

    fn and(&mut self) -> Result<Parsed, SelectorError> {
        self.chain(ReservedWord::And, SelectorParser::not, Condition::And)
    }

    fn chain(
        &mut self,
        word: ReservedWord,
        part: fn(&mut Self) -> Result<Parsed, SelectorError>,
        join: fn(Vec<Condition>) -> Condition,
    ) -> Result<Parsed, SelectorError> {
        let first = part(self)?;
        if *self.peek() != SelectorToken::Word(word) {
            return Ok(first);
        }
        let mut parts = vec![first.condition()?];
        while self.eat_word(word) {
            parts.push(part(self)?.condition()?);
        }
        Ok(Parsed::Condition(join(parts)))
    }

    fn not(&mut self) -> Result<Parsed, SelectorError> {
        if !self.eat_word(ReservedWord::Not) {
            return self.relation();
        }
        let condition = self.nested(SelectorParser::not)?.condition()?;
        Ok(Parsed::Condition(Condition::Not(condition.into())))
    }

    fn relation(&mut self) -> Result<Parsed, SelectorError> {
        let at = self.next;
        let left = self.sum()?;
        if let Some(comparison) = self.comparison() {
            let left = self.comparable(left, comparison)?;
            let right = self.sum()?;
            let right = self.comparable(right, comparison)?;
            return Ok(Parsed::Condition(Condition::Compare(left, comparison, right)));
        }
        if self.eat_word(ReservedWord::Is) {
            let name = self.name(left, at)?;
            let negated = self.eat_word(ReservedWord::Not);
            return match self.eat_word(ReservedWord::Null) {
                true => Ok(Parsed::Condition(Condition::IsNull { name, negated })),
                false => Err(self.unexpected("NULL or NOT NULL after IS")),
            };
        }
        let negated = self.eat_word(ReservedWord::Not);
        let condition = if self.eat_word(ReservedWord::Between) {
            self.between(left, negated)?
        } else if self.eat_word(ReservedWord::In) {
            let name = self.name(left, at)?;
            Condition::In { name, texts: self.texts()?, negated }
        } else if self.eat_word(ReservedWord::Like) {
            let name = self.name(left, at)?;
            Condition::Like { name, pattern: self.pattern()?, negated }
        } else if negated {
            return Err(self.unexpected("BETWEEN, IN or LIKE after NOT"));
        } else {
            return Ok(left);
        };
        Ok(Parsed::Condition(condition))
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let comparison = match self.peek() {
            SelectorToken::Symbol("=") => Comparison::Equal,
            SelectorToken::Symbol("<>") => Comparison::NotEqual,
            SelectorToken::Symbol(">") => Comparison::Greater,
            SelectorToken::Symbol(">=") => Comparison::GreaterOrEqual,
            SelectorToken::Symbol("<") => Comparison::Less,
            SelectorToken::Symbol("<=") => Comparison::LessOrEqual,
            _ => return None,
        };
        self.next += 1;
        Some(comparison)
    }

    /// Texts and truths are equal or not; no order is defined for them.
    fn comparable(
        &self,
        parsed: Parsed,
        comparison: Comparison,
    ) -> Result<Computation, SelectorError> {
        match (comparison, parsed) {
            (Comparison::Equal | Comparison::NotEqual, Parsed::Computation(operation, _)) => {
                Ok(operation)
            }
            (_, parsed) => self.numeric(parsed),
        }
    }

    /// A value that is no literal of another type.
    fn numeric(&self, parsed: Parsed) -> Result<Computation, SelectorError> {
        match parsed {
            Parsed::Computation(
                Computation::Constant(Value::String(_) | Value::Bool(_)),
                place,
            ) => Err(place.expected("a number")),
            Parsed::Computation(operation, _) => Ok(operation),
            Parsed::Condition(_) => {
                Err(self.place(self.next.saturating_sub(1)).expected("a value before this"))
            }
        }
    }

    fn name(&self, parsed: Parsed, at: usize) -> Result<String, SelectorError> {
        match parsed {
            Parsed::Computation(Computation::Name(name), _) => Ok(name),
            _ => Err(self.place(at).expected("the name of a property before IS, IN and LIKE")),
        }
    }

    fn between(&mut self, value: Parsed, negated: bool) -> Result<Condition, SelectorError> {
        let value = self.numeric(value)?;
        let low = self.sum()?;
        let low = self.numeric(low)?;
        if !self.eat_word(ReservedWord::And) {
            return Err(self.unexpected("AND between the bounds"));
        }
        let high = self.sum()?;
        let high = self.numeric(high)?;
        Ok(Condition::Between { value, low, high, negated })
    }

    fn texts(&mut self) -> Result<Vec<String>, SelectorError> {
        if !self.eat_symbol("(") {
            return Err(self.unexpected("'(' after IN"));
        }
        let mut texts = vec![self.text("a text in the list after IN")?];
        while self.eat_symbol(",") {
            texts.push(self.text("a text in the list after IN")?);
        }
        match self.eat_symbol(")") {
            true => Ok(texts),
            false => Err(self.unexpected("',' or ')' in the list after IN")),
        }
    }

    fn text(&mut self, expected: &'static str) -> Result<String, SelectorError> {
        match self.peek().clone() {
            SelectorToken::Text(text) => {
                self.next += 1;
                Ok(text)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn pattern(&mut self) -> Result<Pattern, SelectorError> {
        let at = self.next;
        let pattern = self.text("a text as the pattern")?;
        let mut escape = None;
        if self.eat_word(ReservedWord::Escape) {
            let at = self.next;
            let text = self.text("a text of one character after ESCAPE")?;
            let mut chars = text.chars();
            escape = chars.next().filter(|_| chars.next().is_none());
            if escape.is_none() {
                return Err(self.place(at).expected("a text of one character after ESCAPE"));
            }
        }
        Pattern::new(&pattern, escape)
            .ok_or_else(|| self.place(at).expected("a pattern of at most 1024 characters"))
    }

    fn sum(&mut self) -> Result<Parsed, SelectorError> {
        self.arithmetic(false, SelectorParser::product)
    }

    fn product(&mut self) -> Result<Parsed, SelectorError> {
        self.arithmetic(true, SelectorParser::signed)
    }

    fn arithmetic(
        &mut self,
        products: bool,
        operand: fn(&mut Self) -> Result<Parsed, SelectorError>,
    ) -> Result<Parsed, SelectorError> {
        let at = self.next;
        let first = operand(self)?;
        let Some(mut operator) = self.operator(products) else { return Ok(first) };
        let first = self.numeric(first)?;
        let mut rest = Vec::new();
        loop {
            let next = operand(self)?;
            rest.push((operator, self.numeric(next)?));
            match self.operator(products) {
                Some(next) => operator = next,
                None => {
                    let operation = Computation::Arithmetic(first.into(), rest);
                    return Ok(Parsed::Computation(operation, self.place(at)));
                }
            }
        }
    }

    fn operator(&mut self, products: bool) -> Option<Operator> {
        let operator = match self.peek() {
            SelectorToken::Symbol("+") => Operator::Add,
            SelectorToken::Symbol("-") => Operator::Subtract,
            SelectorToken::Symbol("*") => Operator::Multiply,
            SelectorToken::Symbol("/") => Operator::Divide,
            SelectorToken::Symbol("%") => Operator::Remainder,
            _ => return None,
        };
        let found = operator.is_product() == products;
        self.next += usize::from(found);
        found.then_some(operator)
    }

    fn signed(&mut self) -> Result<Parsed, SelectorError> {
        let at = self.next;
        if self.eat_symbol("+") {
            let operand = self.nested(SelectorParser::signed)?;
            return Ok(Parsed::Computation(self.numeric(operand)?, self.place(at)));
        }
        if !self.eat_symbol("-") {
            return self.primary();
        }
        // The least integer has no positive twin, so a minus belongs to the number after it.
        if let SelectorToken::Integer(digits, base) = self.peek().clone() {
            return self.integer("-", &digits, base, at);
        }
        let operand = self.nested(SelectorParser::signed)?;
        let negated = Computation::Negate(self.numeric(operand)?.into());
        Ok(Parsed::Computation(negated, self.place(at)))
    }

    fn integer(
        &mut self,
        sign: &str,
        digits: &str,
        base: u32,
        at: usize,
    ) -> Result<Parsed, SelectorError> {
        let Some(value) = integer(sign, digits, base) else {
            return Err(self.unexpected("an integer of 64 bits"));
        };
        self.next += 1;
        Ok(Parsed::Computation(Computation::Constant(value), self.place(at)))
    }

    fn primary(&mut self) -> Result<Parsed, SelectorError> {
        let at = self.next;
        let operation = match self.peek().clone() {
            SelectorToken::Integer(digits, base) => return self.integer("", &digits, base, at),
            SelectorToken::Double(value) => Computation::Constant(Value::Double(value)),
            SelectorToken::Text(text) => Computation::Constant(Value::String(text)),
            SelectorToken::Word(ReservedWord::True) => Computation::Constant(Value::Bool(true)),
            SelectorToken::Word(ReservedWord::False) => Computation::Constant(Value::Bool(false)),
            SelectorToken::Name(name) => {
                if OTHER_HEADERS.contains(&name.as_str()) {
                    return Err(self.unexpected(
                        "a property or a header that selectors may name (JMSCorrelationID, \
                         JMSDeliveryMode, JMSMessageID, JMSPriority, JMSTimestamp, JMSType)",
                    ));
                }
                Computation::Name(name)
            }
            SelectorToken::Symbol("(") => {
                self.next += 1;
                let inner = self.nested(SelectorParser::or)?;
                return match self.eat_symbol(")") {
                    true => Ok(inner),
                    false => Err(self.unexpected("an operator or ')'")),
                };
            }
            SelectorToken::Word(_) | SelectorToken::Symbol(_) | SelectorToken::End => {
                return Err(self.unexpected("a name or a value"));
            }
        };
        self.next += 1;
        Ok(Parsed::Computation(operation, self.place(at)))
    }
}
