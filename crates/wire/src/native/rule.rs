//! Rules of subscriptions (RULE-11, RULE-12).

use domain::{
    Conditions, DEFAULT_RULE, NewRule, Refusal, RuleFilter, RuleRow, SqlText, SystemProperty,
    Timestamp,
};

use super::{properties_from_v1, properties_to_v1};
use crate::v1;
use crate::v1::filter::Kind;

/// As given; nameless is the one that a new subscription has (RULE-2).
pub fn rule_from_v1(rule: v1::Rule) -> Result<NewRule, Refusal> {
    let v1::Rule { name, filter, action, created_at_ms: _ } = rule;
    let name = if name.is_empty() { DEFAULT_RULE.to_owned() } else { name };
    let filter = filter_from_v1(filter.unwrap_or_default())?;
    let action = action.map(sql_from_v1).transpose()?;
    Ok(NewRule { name, filter, action })
}

pub fn rule_to_v1(rule: &RuleRow) -> v1::Rule {
    let RuleRow { name, filter, action, created_at: Timestamp(created_at_ms), order: _ } = rule;
    v1::Rule {
        name: name.clone(),
        filter: Some(filter_to_v1(filter)),
        action: action.as_ref().map(sql_to_v1),
        created_at_ms: *created_at_ms,
    }
}

fn filter_from_v1(filter: v1::Filter) -> Result<RuleFilter, Refusal> {
    Ok(match filter.kind {
        None | Some(Kind::Constant(true)) => RuleFilter::True,
        Some(Kind::Constant(false)) => RuleFilter::False,
        Some(Kind::Sql(sql)) => RuleFilter::Sql(sql_from_v1(sql)?),
        Some(Kind::Correlation(mut correlation)) => {
            let properties = properties_from_v1(&correlation.properties)?;
            let texts = TEXTS.into_iter();
            let system = texts
                .filter_map(|property| Some((property, text(&mut correlation, property)?.take()?)));
            let system = system.collect();
            RuleFilter::Correlation(Conditions { system, properties, ..Conditions::default() })
        }
    })
}

fn filter_to_v1(filter: &RuleFilter) -> v1::Filter {
    let kind = match filter {
        RuleFilter::True => Kind::Constant(true),
        RuleFilter::False => Kind::Constant(false),
        RuleFilter::Sql(sql) => Kind::Sql(sql_to_v1(sql)),
        RuleFilter::Correlation(Conditions { system, properties, written: _ }) => {
            let mut correlation =
                v1::Correlation { properties: properties_to_v1(properties), ..Default::default() };
            for (property, value) in system {
                if let Some(text) = text(&mut correlation, *property) {
                    *text = Some(value.clone());
                }
            }
            Kind::Correlation(correlation)
        }
    };
    v1::Filter { kind: Some(kind) }
}

fn sql_from_v1(sql: v1::Sql) -> Result<SqlText, Refusal> {
    let parameters = properties_from_v1(&sql.parameters)?;
    Ok(SqlText { text: sql.text, parameters, ..SqlText::default() })
}

fn sql_to_v1(sql: &SqlText) -> v1::Sql {
    v1::Sql { text: sql.text.clone(), parameters: properties_to_v1(&sql.parameters) }
}

/// What a correlation filter may ask of a message beside its user properties.
const TEXTS: [SystemProperty; 8] = [
    SystemProperty::CorrelationId,
    SystemProperty::MessageId,
    SystemProperty::To,
    SystemProperty::ReplyTo,
    SystemProperty::Subject,
    SystemProperty::SessionId,
    SystemProperty::ReplyToSessionId,
    SystemProperty::ContentType,
];

fn text(of: &mut v1::Correlation, property: SystemProperty) -> Option<&mut Option<String>> {
    Some(match property {
        SystemProperty::CorrelationId => &mut of.correlation_id,
        SystemProperty::MessageId => &mut of.message_id,
        SystemProperty::To => &mut of.to,
        SystemProperty::ReplyTo => &mut of.reply_to,
        SystemProperty::Subject => &mut of.subject,
        SystemProperty::SessionId => &mut of.session_id,
        SystemProperty::ReplyToSessionId => &mut of.reply_to_session_id,
        SystemProperty::ContentType => &mut of.content_type,
        // No correlation filter with a condition on one of these is accepted.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use domain::{Properties, Value};

    use super::*;

    fn kept(rule: NewRule) -> RuleRow {
        let NewRule { name, filter, action } = rule;
        RuleRow { name, filter, action, created_at: Timestamp(7), order: 3 }
    }

    #[test]
    fn rule_12_every_condition_survives_the_native_api() {
        let parameters: Properties = [("p".to_owned(), Value::Long(5))].into();
        let sql =
            SqlText { text: "a = @p".into(), parameters: parameters.clone(), ..SqlText::default() };
        let system = TEXTS.into_iter().map(|property| (property, property.name().to_owned()));
        let conditions = Conditions {
            system: system.collect(),
            properties: parameters,
            ..Conditions::default()
        };
        for filter in [
            RuleFilter::True,
            RuleFilter::False,
            RuleFilter::Sql(sql.clone()),
            RuleFilter::Correlation(conditions),
        ] {
            let rule = NewRule { name: "r".into(), filter, action: Some(sql.clone()) };
            let shown = rule_to_v1(&kept(rule.clone()));
            assert_eq!(shown.created_at_ms, 7);
            assert_eq!(rule_from_v1(shown).unwrap(), rule);
        }
    }

    #[test]
    fn rule_2_a_rule_that_says_nothing_is_the_default_one() {
        assert_eq!(rule_from_v1(v1::Rule::default()).unwrap(), NewRule::default());
    }
}
