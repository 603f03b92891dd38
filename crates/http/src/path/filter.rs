//! `$filter` of a list, in the part of OData that Service Bus takes (ATOM-25): comparisons of a name, an
//! instant or a number, functions of a name, and, or, not, parentheses.

use std::cmp::Ordering;

use domain::{Excerpt, Timestamp};

use crate::instant;

/// Characters of a filter, at most.
const CHARS_MAX: usize = 1024;
/// Parentheses and `not`s within each other, at most.
const DEPTH_MAX: usize = 16;

/// Which entries of a list are told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListFilter {
    /// As the client wrote it: links to further pages carry it along.
    pub text: String,
    condition: Condition,
}

/// What a filter may ask of an entry. What an entry has not is equal to nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedEntry<'a> {
    pub name: &'a str,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub accessed_at: Option<Timestamp>,
    pub message_count: Option<u64>,
    pub size_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Compare(EntryField, Relation, Literal),
    Matches(Match, String),
    Constant(bool),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

/// What of an entry is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryField {
    Name,
    CreatedAt,
    UpdatedAt,
    AccessedAt,
    MessageCount,
    SizeInBytes,
}

const FIELDS: [(&str, EntryField); 9] = [
    ("path", EntryField::Name),
    ("name", EntryField::Name),
    ("title", EntryField::Name),
    ("createdat", EntryField::CreatedAt),
    ("modifiedat", EntryField::UpdatedAt),
    ("updatedat", EntryField::UpdatedAt),
    ("accessedat", EntryField::AccessedAt),
    ("messagecount", EntryField::MessageCount),
    ("sizeinbytes", EntryField::SizeInBytes),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    StartsWith,
    EndsWith,
    Contains,
}

const MATCHES: [(&str, Match); 4] = [
    ("startswith", Match::StartsWith),
    ("endswith", Match::EndsWith),
    ("contains", Match::Contains),
    ("substringof", Match::Contains),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

const RELATIONS: [(&str, Relation); 6] = [
    ("eq", Relation::Equal),
    ("ne", Relation::Unequal),
    ("lt", Relation::Less),
    ("le", Relation::LessOrEqual),
    ("gt", Relation::Greater),
    ("ge", Relation::GreaterOrEqual),
];

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Text(String),
    Instant(Timestamp),
    Number(u64),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// In lower case.
    Word(String),
    Text(String),
    Number(u64),
    Open,
    Close,
    Comma,
}

impl ListFilter {
    /// Names are compared whatever their case (ENT-1).
    pub fn parse(text: &str) -> Result<ListFilter, String> {
        let told = |why: String| format!("$filter '{}': {why}", Excerpt(text));
        if text.chars().count() > CHARS_MAX {
            return Err(told(format!("it has more than {CHARS_MAX} characters")));
        }
        let mut parser = Parser { tokens: tokens(text).map_err(told)?, at: 0 };
        let condition = parser.any(0).map_err(told)?;
        match parser.next() {
            None => Ok(ListFilter { text: text.to_owned(), condition }),
            Some(_) => Err(told("something follows that does not belong to it".to_owned())),
        }
    }

    pub fn takes(&self, entry: &ListedEntry<'_>) -> bool {
        self.condition.holds(entry)
    }
}

impl Condition {
    fn holds(&self, entry: &ListedEntry<'_>) -> bool {
        match self {
            Condition::Constant(value) => *value,
            Condition::Not(one) => !one.holds(entry),
            Condition::And(one, other) => one.holds(entry) && other.holds(entry),
            Condition::Or(one, other) => one.holds(entry) || other.holds(entry),
            Condition::Matches(how, part) => {
                let name = entry.name.to_lowercase();
                match how {
                    Match::StartsWith => name.starts_with(part),
                    Match::EndsWith => name.ends_with(part),
                    Match::Contains => name.contains(part),
                }
            }
            Condition::Compare(field, relation, literal) => {
                field.compare(entry, literal).is_some_and(|order| relation.holds(order))
            }
        }
    }
}

impl EntryField {
    fn compare(self, entry: &ListedEntry<'_>, literal: &Literal) -> Option<Ordering> {
        let instant = match self {
            EntryField::Name => {
                let Literal::Text(text) = literal else { return None };
                return Some(entry.name.to_lowercase().cmp(text));
            }
            EntryField::MessageCount | EntryField::SizeInBytes => {
                let Literal::Number(number) = literal else { return None };
                let held = match self {
                    EntryField::MessageCount => entry.message_count,
                    _ => entry.size_bytes,
                };
                return held.map(|held| held.cmp(number));
            }
            EntryField::CreatedAt => Some(entry.created_at),
            EntryField::UpdatedAt => Some(entry.updated_at),
            EntryField::AccessedAt => entry.accessed_at,
        };
        let Literal::Instant(other) = literal else { return None };
        instant.map(|instant| instant.cmp(other))
    }

    /// The literal that can be compared with it.
    fn literal(self, token: Option<Token>) -> Result<Literal, String> {
        match (self, token) {
            (EntryField::Name, Some(Token::Text(text))) => Ok(Literal::Text(text.to_lowercase())),
            (EntryField::Name, _) => Err("a name is compared with a text in quotes".to_owned()),
            (EntryField::MessageCount | EntryField::SizeInBytes, Some(Token::Number(number))) => {
                Ok(Literal::Number(number))
            }
            (EntryField::MessageCount | EntryField::SizeInBytes, _) => {
                Err("a count or size is compared with a number from 0 on".to_owned())
            }
            (_, Some(Token::Text(text))) => read_instant(&text).map(Literal::Instant),
            (EntryField::CreatedAt | EntryField::UpdatedAt | EntryField::AccessedAt, _) => {
                Err("an instant is compared with one in quotes, as '2030-01-01T00:00:00Z'"
                    .to_owned())
            }
        }
    }
}

impl Relation {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Relation::Equal => order.is_eq(),
            Relation::Unequal => order.is_ne(),
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
            Relation::Greater => order.is_gt(),
            Relation::GreaterOrEqual => order.is_ge(),
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// Goes on behind the word, if it comes next.
    fn skip(&mut self, word: &str) -> bool {
        let is_next = matches!(self.tokens.get(self.at), Some(Token::Word(next)) if next == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: Token, what: &str) -> Result<(), String> {
        match self.next() {
            Some(found) if found == token => Ok(()),
            _ => Err(format!("{what} is missing")),
        }
    }

    fn any(&mut self, depth: usize) -> Result<Condition, String> {
        let mut condition = self.all(depth)?;
        while self.skip("or") {
            condition = Condition::Or(Box::new(condition), Box::new(self.all(depth)?));
        }
        Ok(condition)
    }

    fn all(&mut self, depth: usize) -> Result<Condition, String> {
        let mut condition = self.one(depth)?;
        while self.skip("and") {
            condition = Condition::And(Box::new(condition), Box::new(self.one(depth)?));
        }
        Ok(condition)
    }

    fn one(&mut self, depth: usize) -> Result<Condition, String> {
        if depth == DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} deep"));
        }
        if self.skip("not") {
            return self.one(depth + 1).map(|condition| Condition::Not(Box::new(condition)));
        }
        match self.next() {
            Some(Token::Open) => {
                let inner = self.any(depth + 1)?;
                self.expect(Token::Close, "a ')'")?;
                self.compared(inner)
            }
            Some(Token::Word(word)) => match find(&MATCHES, &word) {
                Some(how) => {
                    let matches = self.matches(how)?;
                    self.compared(matches)
                }
                None => self.comparison(&word),
            },
            _ => Err("a condition is missing, as startswith(path, 'a') or path eq 'a'".to_owned()),
        }
    }

    /// `startswith(path, 'a')`, or with the text first, as `substringof` has it.
    fn matches(&mut self, how: Match) -> Result<Condition, String> {
        const SHAPE: &str =
            "a function takes a name and a text in quotes, as startswith(path, 'a')";
        self.expect(Token::Open, "a '('")?;
        let first = self.next();
        self.expect(Token::Comma, "a ','")?;
        let part = match (first, self.next()) {
            (Some(Token::Word(of)), Some(Token::Text(part)))
            | (Some(Token::Text(part)), Some(Token::Word(of)))
                if find(&FIELDS, &of) == Some(EntryField::Name) =>
            {
                part.to_lowercase()
            }
            _ => return Err(SHAPE.to_owned()),
        };
        self.expect(Token::Close, "a ')'")?;
        Ok(Condition::Matches(how, part))
    }

    /// `… eq true`, as clients write it behind a function.
    fn compared(&mut self, condition: Condition) -> Result<Condition, String> {
        let is_equal = match self.tokens.get(self.at) {
            Some(Token::Word(word)) if word == "eq" => true,
            Some(Token::Word(word)) if word == "ne" => false,
            _ => return Ok(condition),
        };
        self.at += 1;
        let is_true = match self.next() {
            Some(Token::Word(word)) if word == "true" => true,
            Some(Token::Word(word)) if word == "false" => false,
            _ => return Err("a condition is compared with true or false".to_owned()),
        };
        Ok(match is_equal == is_true {
            true => condition,
            false => Condition::Not(Box::new(condition)),
        })
    }

    fn comparison(&mut self, word: &str) -> Result<Condition, String> {
        if let Some(value) = [("true", true), ("false", false)].iter().find(|(of, _)| *of == word) {
            return self.compared(Condition::Constant(value.1));
        }
        let field = find(&FIELDS, word).ok_or_else(|| {
            let known: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
            format!("'{}' cannot be filtered by; {} can", Excerpt(word), known.join(", "))
        })?;
        let relation = match self.next() {
            Some(Token::Word(relation)) => find(&RELATIONS, &relation),
            _ => None,
        };
        let relation = relation.ok_or_else(|| {
            format!("eq, ne, lt, le, gt or ge is missing behind {}", Excerpt(word))
        })?;
        // `datetime'…'`, as OData writes instants.
        self.skip("datetime");
        let literal = self.next();
        Ok(Condition::Compare(field, relation, field.literal(literal)?))
    }
}

fn find<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == word).map(|(_, found)| *found)
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            c if c.is_whitespace() => continue,
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '\'' => {
                let mut quoted = String::new();
                loop {
                    match chars.next() {
                        None => return Err("a quote is not closed".to_owned()),
                        Some('\'') if chars.next_if_eq(&'\'').is_none() => break,
                        Some(c) => quoted.push(c),
                    }
                }
                Token::Text(quoted)
            }
            c if c.is_ascii_alphanumeric() => {
                let mut word = c.to_ascii_lowercase().to_string();
                while let Some(c) = chars.next_if(char::is_ascii_alphanumeric) {
                    word.push(c.to_ascii_lowercase());
                }
                match word.parse() {
                    Ok(number) => Token::Number(number),
                    Err(_) => Token::Word(word),
                }
            }
            c => return Err(format!("{c:?} does not belong into a filter")),
        });
    }
    Ok(tokens)
}

/// In UTC, unless it says otherwise.
fn read_instant(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("'{}' is no instant, as '2030-01-01T00:00:00Z' is one", Excerpt(text));
    // What was before there were any entities is before all of them.
    instant::parse_ms(text).map(|ms| Timestamp(u64::try_from(ms).unwrap_or(0))).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(filter: &str) -> Result<bool, String> {
        let entry = ListedEntry {
            name: "Sales/Orders",
            created_at: Timestamp(1_767_225_600_000), // 2026-01-01.
            updated_at: Timestamp(1_767_312_000_000),
            accessed_at: None,
            message_count: Some(10),
            size_bytes: Some(0),
        };
        ListFilter::parse(filter).map(|filter| filter.takes(&entry))
    }

    /// As NamespaceManager's documentation and Service Bus Explorer write them, and what OData has
    /// beside.
    #[test]
    fn atom_25_filters_select_by_name_instant_and_number() {
        for (filter, expected) in [
            ("startswith(path, 'sales') eq true", true),
            ("startsWith(Path,'SALES/')", true),
            ("startswith(path, 'orders') eq true", false),
            ("startswith(path, 'orders') eq false", true),
            ("startswith(path, 'orders') ne true", true),
            ("endswith(name, 'orders')", true),
            ("contains(path, 's/o')", true),
            ("substringof('s/o', path)", true),
            ("Path eq 'sales/orders'", true),
            ("path ne 'sales/orders'", false),
            ("path lt 'sales/p'", true),
            ("messageCount Gt 10", false),
            ("messageCount Ge 10", true),
            ("MessageCount le 10 AND sizeInBytes eq 0", true),
            ("createdAt ge '2026-01-01T00:00:00Z'", true),
            ("createdAt gt '2026-01-01T00:00:00Z'", false),
            ("createdAt lt datetime'2026-01-01T00:00:01'", true),
            ("modifiedAt gt '2026-01-01T12:00:00+01:00'", true),
            // It was never accessed: neither before nor after.
            ("accessedAt lt '2030-01-01T00:00:00Z'", false),
            ("accessedAt ge '2030-01-01T00:00:00Z'", false),
            ("path eq 'a' or path eq 'b' or path eq 'sales/orders'", true),
            ("path eq 'sales/orders' or path eq 'a' and path eq 'b'", true),
            ("(path eq 'sales/orders' or path eq 'a') and path eq 'b'", false),
            ("not (path eq 'a') and not path eq 'b'", true),
            ("(startswith(path, 'a')) eq false", true),
            ("path eq 'it''s'", false),
            ("true", true),
        ] {
            assert_eq!(takes(filter), Ok(expected), "{filter}");
        }
    }

    #[test]
    fn atom_25_what_is_no_filter_is_refused_by_what_is_wrong() {
        let deep = format!("{}path eq 'a'{}", "(".repeat(20), ")".repeat(20));
        let long = format!("path eq '{}'", "a".repeat(2000));
        for (filter, told) in [
            ("path", "eq, ne, lt, le, gt or ge is missing behind path"),
            ("path eq", "a name is compared with a text in quotes"),
            ("path eq 5", "a name is compared with a text in quotes"),
            ("path eq 'a", "a quote is not closed"),
            ("colour eq 'red'", "'colour' cannot be filtered by; path, name"),
            ("messageCount gt 'many'", "a count or size is compared with a number"),
            ("messageCount gt -1", "'-' does not belong into a filter"),
            ("createdAt gt 5", "an instant is compared with one in quotes"),
            ("createdAt gt 'yesterday'", "'yesterday' is no instant"),
            ("startswith(path)", "a ',' is missing"),
            ("startswith(messageCount, 'a')", "a function takes a name and a text"),
            ("startswith(path, 'a') eq maybe", "compared with true or false"),
            ("path eq 'a' path eq 'b'", "something follows that does not belong to it"),
            ("(path eq 'a'", "a ')' is missing"),
            ("path eq 'a' and", "a condition is missing"),
            (&deep, "it is nested more than 16 deep"),
            (&long, "it has more than 1024 characters"),
        ] {
            let error = takes(filter).expect_err(filter);
            assert!(error.contains(told), "{error}");
            assert!(error.chars().count() < 400, "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_filter_or_none(text in "[a-z0-9 ()',]{0,60}") {
            let _ = takes(&text);
        }
    }
}
