//! Expressions: what stands between `[` and `]`.

/// Deeper ones are refused: no file decides how much stack is used.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Text(String),
    Integer(i64),
    Call {
        name: String,
        arguments: Vec<Expression>,
    },
    /// `of[index]`, and `of.index`.
    Index {
        of: Box<Expression>,
        index: Box<Expression>,
    },
}

/// What a string of a template is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
    Literal(String),
    Expression(Expression),
}

/// # Errors
/// What is wrong with an expression, and at which character, from 1.
pub(crate) fn written(text: &str) -> Result<Written, String> {
    if text.starts_with("[[") && text.ends_with(']') {
        return Ok(Written::Literal(text[1..].to_owned()));
    }
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        None => Ok(Written::Literal(text.to_owned())),
        Some(inside) => {
            let mut parser = Parser { text: inside, at: 0 };
            let expression = parser.expression(0)?;
            parser.spaces();
            match parser.rest() {
                "" => Ok(Written::Expression(expression)),
                _ => Err(parser.wrong("the end of the expression")),
            }
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn wrong(&self, expected: &str) -> String {
        let column = self.text[..self.at].chars().count() + 2;
        let found = match self.rest().chars().next() {
            Some(c) => format!("'{c}'"),
            None => "the end".to_owned(),
        };
        format!("expected {expected}, found {found} at character {column} of '[{}]'", self.text)
    }

    fn spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn takes(&mut self, sign: char) -> bool {
        self.spaces();
        let is_there = self.rest().starts_with(sign);
        if is_there {
            self.at += sign.len_utf8();
        }
        is_there
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(self.wrong(&format!("'{sign}'"))),
        }
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn expression(&mut self, depth: usize) -> Result<Expression, String> {
        if depth > DEPTH_MAX {
            return Err(format!("an expression is nested more than {DEPTH_MAX} deep"));
        }
        let mut of = self.primary(depth)?;
        loop {
            let index = if self.takes('.') {
                self.spaces();
                match self.word() {
                    "" => return Err(self.wrong("a member's name")),
                    name => Expression::Text(name.to_owned()),
                }
            } else if self.takes('[') {
                let index = self.expression(depth + 1)?;
                self.expect(']')?;
                index
            } else {
                return Ok(of);
            };
            of = Expression::Index { of: Box::new(of), index: Box::new(index) };
        }
    }

    fn primary(&mut self, depth: usize) -> Result<Expression, String> {
        self.spaces();
        match self.rest().chars().next() {
            Some('\'') => self.text_literal(),
            Some(c) if c.is_ascii_digit() || c == '-' => self.integer(),
            Some(c) if c.is_alphabetic() || c == '_' => self.call(depth),
            _ => Err(self.wrong("a function, a text in '…' or a number")),
        }
    }

    /// A quote in it is written twice.
    fn text_literal(&mut self) -> Result<Expression, String> {
        let mut text = String::new();
        let mut rest = &self.rest()[1..];
        loop {
            let Some((before, after)) = rest.split_once('\'') else {
                return Err(self.wrong("a text that ends with a quote"));
            };
            text += before;
            match after.strip_prefix('\'') {
                Some(after) => {
                    text.push('\'');
                    rest = after;
                }
                None => {
                    self.at = self.text.len() - after.len();
                    return Ok(Expression::Text(text));
                }
            }
        }
    }

    fn integer(&mut self) -> Result<Expression, String> {
        let rest = self.rest();
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let end = end + rest.len() - digits.len();
        let number = rest[..end].parse().map_err(|_| self.wrong("a whole number of 64 bits"))?;
        self.at += end;
        Ok(Expression::Integer(number))
    }

    /// Those of a template itself are named `namespace.function`.
    fn call(&mut self, depth: usize) -> Result<Expression, String> {
        let mut name = self.word().to_owned();
        if self.takes('.') {
            name = format!("{name}.{}", self.word());
        }
        if !self.takes('(') {
            return match name.to_ascii_lowercase().as_str() {
                "true" | "false" | "null" => Ok(Expression::Call { name, arguments: Vec::new() }),
                _ => Err(self.wrong(&format!("'(' behind {name}"))),
            };
        }
        let mut arguments = Vec::new();
        if self.takes(')') {
            return Ok(Expression::Call { name, arguments });
        }
        loop {
            arguments.push(self.expression(depth + 1)?);
            if self.takes(')') {
                return Ok(Expression::Call { name, arguments });
            }
            self.expect(',')?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a program would write it, to see how it was understood.
    fn shown(expression: &Expression) -> String {
        match expression {
            Expression::Text(text) => format!("{text:?}"),
            Expression::Integer(number) => number.to_string(),
            Expression::Call { name, arguments } => {
                let arguments: Vec<String> = arguments.iter().map(shown).collect();
                format!("{name}({})", arguments.join(" "))
            }
            Expression::Index { of, index } => format!("{}[{}]", shown(of), shown(index)),
        }
    }

    #[test]
    fn strings_are_literals_or_expressions() {
        for (text, expected) in [
            ("plain", "= plain"),
            ("", "= "),
            ("[[x]", "= [x]"),
            ("[[x", "= [[x"),
            ("[not closed", "= [not closed"),
            ("[concat('a', 'it''s', -5)]", "concat(\"a\" \"it's\" -5)"),
            ("[ parameters( 'a' ) ]", "parameters(\"a\")"),
            ("[parameters('a')[copyIndex()].b]", "parameters(\"a\")[copyIndex()][\"b\"]"),
            ("[resourceGroup().location]", "resourceGroup()[\"location\"]"),
            ("[a.b('x')]", "a.b(\"x\")"),
            ("[variables('x').y['z'][0]]", "variables(\"x\")[\"y\"][\"z\"][0]"),
            ("[true]", "true()"),
        ] {
            let found = match written(text).expect(text) {
                Written::Literal(text) => format!("= {text}"),
                Written::Expression(expression) => shown(&expression),
            };
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_told_with_its_place() {
        for (text, told) in [
            ("[concat('a']", "expected ',', found the end at character 12 of '[concat('a']'"),
            ("[concat('a)]", "expected a text that ends with a quote, found ''' at character 9"),
            ("[]", "expected a function, a text in '…' or a number, found the end"),
            ("[a]", "expected '(' behind a, found the end"),
            ("[a() b()]", "expected the end of the expression, found 'b' at character 6"),
            ("[a().]", "expected a member's name"),
            ("[99999999999999999999]", "expected a whole number of 64 bits"),
        ] {
            let error = written(text).expect_err(text);
            assert!(error.starts_with(told), "{error}");
        }
        let deep = format!("[{}1{}]", "a(".repeat(10_000), ")".repeat(10_000));
        assert!(written(&deep).expect_err("deep").contains("more than 64 deep"));
    }
}
