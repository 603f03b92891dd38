//! A rule's description, to and from XML.

use std::io;

use domain::{
    Conditions, DEFAULT_RULE, Excerpt, NewRule, RuleFilter, RuleRow, SqlText, SystemProperty,
};
use roxmltree::Node;

use super::description::{Element, element};
use super::document::Elements;
use super::typed;
use crate::failure::Failure;

pub(super) const ELEMENT: &str = "RuleDescription";
/// The only dialect there ever was.
const COMPATIBILITY_LEVEL: u64 = 20;

/// What a correlation filter asks, in the order of its elements.
const CONDITIONS: [(&str, SystemProperty); 8] = [
    ("CorrelationId", SystemProperty::CorrelationId),
    ("MessageId", SystemProperty::MessageId),
    ("To", SystemProperty::To),
    ("ReplyTo", SystemProperty::ReplyTo),
    ("Label", SystemProperty::Subject),
    ("SessionId", SystemProperty::SessionId),
    ("ReplyToSessionId", SystemProperty::ReplyToSessionId),
    ("ContentType", SystemProperty::ContentType),
];

/// Filter and action are always there, or JS stumbles.
pub(super) fn write(out: &mut Elements<'_>, rule: &RuleRow) -> io::Result<()> {
    match &rule.filter {
        RuleFilter::True => constant(out, "TrueFilter", "1=1")?,
        RuleFilter::False => constant(out, "FalseFilter", "1=0")?,
        RuleFilter::Sql(sql) => out.typed("Filter", "SqlFilter", |out| write_sql(out, sql))?,
        RuleFilter::Correlation(conditions) => {
            out.typed("Filter", "CorrelationFilter", |out| write_conditions(out, conditions))?;
        }
    }
    match &rule.action {
        None => out.typed("Action", "EmptyRuleAction", |_| Ok(()))?,
        Some(sql) => out.typed("Action", "SqlRuleAction", |out| write_sql(out, sql))?,
    }
    out.instant("CreatedAt", rule.created_at)?;
    out.text("Name", &rule.name)
}

fn constant(out: &mut Elements<'_>, kind: &str, text: &str) -> io::Result<()> {
    let sql = SqlText { text: text.to_owned(), ..SqlText::default() };
    out.typed("Filter", kind, |out| write_sql(out, &sql))
}

fn write_sql(out: &mut Elements<'_>, sql: &SqlText) -> io::Result<()> {
    out.text("SqlExpression", &sql.text)?;
    out.number("CompatibilityLevel", COMPATIBILITY_LEVEL)?;
    typed::write(out, "Parameters", &sql.parameters, &sql.written)
}

fn write_conditions(out: &mut Elements<'_>, conditions: &Conditions) -> io::Result<()> {
    for (name, property) in CONDITIONS {
        out.some(name, conditions.system.get(&property).map(String::as_str))?;
    }
    typed::write(out, "Properties", &conditions.properties, &conditions.written)
}

/// RULE-2: of a new subscription, the first rule, where one is given.
pub(super) fn read_first(subscription: Node<'_, '_>) -> Result<NewRule, Failure> {
    match element(subscription, "DefaultRuleDescription") {
        Some(given) => read(given.0, None),
        None => Ok(NewRule::default()),
    }
}

/// A rule as a client wrote it. `name`: what the path calls it, which holds; without one, the rule
/// says it itself, or is the default one (RULE-2).
pub(super) fn read(description: Node<'_, '_>, name: Option<&str>) -> Result<NewRule, Failure> {
    let own_name = || element(description, "Name").and_then(Element::some_text);
    let name = name.map(str::to_owned).or_else(own_name);
    let filter = match element(description, "Filter") {
        None => RuleFilter::True,
        Some(filter) => read_filter(filter)?,
    };
    let action = match element(description, "Action") {
        None => None,
        Some(action) => match action.kind() {
            None | Some("EmptyRuleAction") => None,
            Some("SqlRuleAction") => Some(read_sql(action)?),
            Some(_) => return Err(wrong_kind(action, "EmptyRuleAction or SqlRuleAction")),
        },
    };
    Ok(NewRule { name: name.unwrap_or_else(|| DEFAULT_RULE.to_owned()), filter, action })
}

fn read_filter(filter: Element<'_, '_>) -> Result<RuleFilter, Failure> {
    match filter.kind() {
        Some("TrueFilter") => Ok(RuleFilter::True),
        Some("FalseFilter") => Ok(RuleFilter::False),
        Some("SqlFilter") => read_sql(filter).map(RuleFilter::Sql),
        Some("CorrelationFilter") => read_conditions(filter).map(RuleFilter::Correlation),
        _ => Err(wrong_kind(filter, "TrueFilter, FalseFilter, SqlFilter or CorrelationFilter")),
    }
}

fn wrong_kind(element: Element<'_, '_>, expected: &str) -> Failure {
    let (name, kind) = (element.name(), element.kind().unwrap_or_default());
    Failure::bad(format!("the i:type of {name} is '{}', and must be {expected}", Excerpt(kind)))
}

fn read_sql(of: Element<'_, '_>) -> Result<SqlText, Failure> {
    let text = element(of.0, "SqlExpression")
        .ok_or_else(|| Failure::bad(format!("{} has no SqlExpression", of.name())))?;
    let (parameters, written) = typed::read(element(of.0, "Parameters"))?;
    Ok(SqlText { text: text.text().to_owned(), parameters, written })
}

fn read_conditions(filter: Element<'_, '_>) -> Result<Conditions, Failure> {
    let system = CONDITIONS
        .into_iter()
        .filter_map(|(name, property)| Some((property, element(filter.0, name)?.some_text()?)));
    let (properties, written) = typed::read(element(filter.0, "Properties"))?;
    Ok(Conditions { system: system.collect(), properties, written })
}
