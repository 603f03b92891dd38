//! The few rules that subscriptions of the simulation have, and which messages each takes, in plain
//! Rust: beside the filters of `domain`, not with their help. A rule's name says what it does.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::{
    Conditions, ContentHeader, DEFAULT_RULE, NewRule, Properties, RuleFilter, SqlText, Value,
};

use crate::random::Random;

pub const COLOURS: [&str; 3] = ["red", "green", "blue"];
/// What messages are numbered with, from 0 up to this.
pub const WEIGHT_MAX: u64 = 9;

/// Which messages a rule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    All,
    None,
    /// By a correlation filter, or one in SQL.
    Colour(usize),
    ColourInSql(usize),
    Above(u64),
    /// It fails on every message.
    Fails,
}

/// See the file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    takes: Takes,
    /// Its action makes a copy of its own.
    marks: bool,
}

/// What a rule or some make of a message, for one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    Plain,
    /// To the dead-letter queue (RULE-20).
    Failed,
    /// By a rule with an action.
    Marked,
}

/// What a message says to rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    colour: usize,
    weight: u64,
}

impl Rule {
    pub const ALL: Rule = Rule { takes: Takes::All, marks: false };

    pub fn any(random: &mut Random) -> Rule {
        let takes = match random.below(12) {
            0..3 => Takes::All,
            3 => Takes::None,
            4..6 => Takes::Colour(random.index(COLOURS.len())),
            6..8 => Takes::ColourInSql(random.index(COLOURS.len())),
            8..11 => Takes::Above(random.below(WEIGHT_MAX)),
            _ => Takes::Fails,
        };
        Rule { takes, marks: takes != Takes::Fails && random.chance(250) }
    }

    /// As a subscription's rule, under a name that says all.
    pub fn given(self) -> NewRule {
        let sql = |text: String| SqlText { text, ..SqlText::default() };
        let filter = match self.takes {
            Takes::All => RuleFilter::True,
            Takes::None => RuleFilter::False,
            Takes::Colour(at) => RuleFilter::Correlation(Conditions {
                system: BTreeMap::new(),
                properties: [("colour".to_owned(), Value::String(COLOURS[at].to_owned()))].into(),
                ..Conditions::default()
            }),
            Takes::ColourInSql(at) => RuleFilter::Sql(sql(format!("colour = '{}'", COLOURS[at]))),
            Takes::Above(weight) => RuleFilter::Sql(sql(format!("weight > {weight}"))),
            Takes::Fails => RuleFilter::Sql(sql("weight / 0 = 1".to_owned())),
        };
        let action = self.marks.then(|| sql("SET mark = 'seen'".to_owned()));
        NewRule { name: self.name(), filter, action }
    }

    fn name(self) -> String {
        let takes = match self.takes {
            Takes::All => "all".to_owned(),
            Takes::None => "none".to_owned(),
            Takes::Colour(at) => format!("colour-{at}"),
            Takes::ColourInSql(at) => format!("sql-{at}"),
            Takes::Above(weight) => format!("above-{weight}"),
            Takes::Fails => "fails".to_owned(),
        };
        if self.marks { format!("{takes}.marks") } else { takes }
    }

    /// The rule that has this name.
    pub fn named(name: &str) -> Option<Rule> {
        let (takes, marks) = match name.strip_suffix(".marks") {
            Some(takes) => (takes, true),
            None => (name, false),
        };
        let takes = match takes.split_once('-') {
            None if takes == "all" || takes == DEFAULT_RULE => Takes::All,
            None if takes == "none" => Takes::None,
            None if takes == "fails" => Takes::Fails,
            Some(("colour", at)) => Takes::Colour(at.parse().ok()?),
            Some(("sql", at)) => Takes::ColourInSql(at.parse().ok()?),
            Some(("above", weight)) => Takes::Above(weight.parse().ok()?),
            _ => return None,
        };
        Some(Rule { takes, marks })
    }

    fn takes(self, said: Said) -> bool {
        match self.takes {
            Takes::All => true,
            Takes::None | Takes::Fails => false,
            Takes::Colour(at) | Takes::ColourInSql(at) => said.colour == at,
            Takes::Above(weight) => said.weight > weight,
        }
    }
}

/// RULE-5 to RULE-7, RULE-20: a subscription's copies of a message, given its rules in the order of
/// their creation.
pub fn copies(rules: &[Rule], keeps_failed: bool, content: &Bytes) -> Vec<Copy> {
    let Some(said) = said(content) else { return Vec::new() };
    let mut copies = Vec::new();
    if rules.iter().any(|rule| !rule.marks && rule.takes(said)) {
        copies.push(Copy::Plain);
    }
    if keeps_failed && rules.iter().any(|rule| rule.takes == Takes::Fails) {
        copies.push(Copy::Failed);
    }
    let marked = rules.iter().filter(|rule| rule.marks && rule.takes(said));
    copies.extend(marked.map(|_| Copy::Marked));
    copies
}

/// How a content says it.
pub fn written(text: &str, colour: usize, weight: u64) -> Bytes {
    Bytes::from(format!("{text}; {} {weight}", COLOURS[colour]))
}

fn said(content: &Bytes) -> Option<Said> {
    let text = std::str::from_utf8(content).ok()?;
    let (colour, weight) = text.split_once("; ")?.1.split_once(' ')?;
    let colour = COLOURS.iter().position(|known| *known == colour)?;
    Some(Said { colour, weight: weight.parse().ok()? })
}

/// What the machine is told of a content (`domain::ReadContent`).
pub fn read(content: &Bytes) -> Option<ContentHeader> {
    let Said { colour, weight } = said(content)?;
    let properties = Properties::from([
        ("colour".to_owned(), Value::String(COLOURS[colour].to_owned())),
        ("weight".to_owned(), Value::Long(weight as i64)),
    ]);
    Some(ContentHeader { properties, ..ContentHeader::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_known_by_its_name() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let rule = Rule::any(&mut random);
            assert_eq!(Rule::named(&rule.given().name), Some(rule));
        }
        assert_eq!(Rule::named(DEFAULT_RULE), Some(Rule::ALL));
        assert_eq!(Rule::named("above-x"), None);
    }

    #[test]
    fn rule_5_rule_6_rule_20_copies_in_their_order() {
        let rules = |names: &[&str]| -> Vec<Rule> {
            names.iter().filter_map(|name| Rule::named(name)).collect()
        };
        let content = written("a message", 1, 5);
        for (names, keeps_failed, expected) in [
            (&[][..], true, &[][..]),
            (&["none", "colour-0", "above-5"], true, &[]),
            (&["all", "colour-1", "above-4"], true, &[Copy::Plain]),
            (&["all.marks", "sql-1", "fails"], true, &[Copy::Plain, Copy::Failed, Copy::Marked]),
            (&["all.marks", "above-4.marks", "fails"], false, &[Copy::Marked, Copy::Marked]),
        ] {
            assert_eq!(copies(&rules(names), keeps_failed, &content), expected, "{names:?}");
        }
    }
}
