//! Values as people read them in a plan. Nothing here shows a key.

use domain::{AccessRights, AuthorizationRule, NewRule, PropertyValue, RuleFilter, SqlText};

use crate::duration;

/// What a rule takes, and what it makes of it.
pub(crate) fn rule(rule: &NewRule) -> String {
    let filter = filter(&rule.filter);
    let text = match &rule.action {
        Some(action) => format!("{filter}; {}", sql(action)),
        None => filter,
    };
    // A plan has a line for each step, and no text of a client moves a cursor.
    text.split(char::is_control).collect::<Vec<_>>().join(" ")
}

fn filter(filter: &RuleFilter) -> String {
    match filter {
        RuleFilter::True => "everything".to_owned(),
        RuleFilter::False => "nothing".to_owned(),
        RuleFilter::Sql(text) => sql(text),
        RuleFilter::Correlation(_) => match filter.compile() {
            Ok(filter) => filter.to_string(),
            Err(error) => error.to_string(),
        },
    }
}

fn sql(sql: &SqlText) -> String {
    let mut text = sql.text.clone();
    for (name, value) in &sql.parameters {
        text += &format!(" @{}={}", name.trim_start_matches('@'), crate::scalar::shown(value));
    }
    text
}

pub(crate) fn value(value: &PropertyValue) -> String {
    match value {
        PropertyValue::Duration(span) => duration::show_ms(span.0),
        PropertyValue::Number(number) => number.to_string(),
        PropertyValue::Flag(flag) => flag.to_string(),
        PropertyValue::Text(text) => format!("'{text}'"),
        PropertyValue::Destination(Some(name)) => name.clone(),
        PropertyValue::Destination(None) => "none".to_owned(),
        PropertyValue::Status(status) => status.as_str().to_owned(),
        PropertyValue::AuthorizationRules(rules) => {
            let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
            format!("[{}]", names.join(", "))
        }
    }
}

/// What an authorization rule allows, as files name it.
pub(crate) fn rights(rule: &AuthorizationRule) -> Vec<&'static str> {
    let AccessRights { listen, send, manage } = rule.rights;
    let rights = [(listen, "listen"), (send, "send"), (manage, "manage")];
    rights.into_iter().filter_map(|(is_given, name)| is_given.then_some(name)).collect()
}
