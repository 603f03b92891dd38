//! Rules as Azure writes them. What is given counts: `filterType` may be missing, or say otherwise.

use domain::{Conditions, NewRule, RuleFilter, SqlText, SystemProperty, Value};
use serde_json::{Map, Value as Json};

/// Whatever the case of its name; null is nothing.
fn member<'v>(of: &'v Map<String, Json>, name: &str) -> Option<&'v Json> {
    let found = of.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value).filter(|value| !value.is_null())
}

/// # Errors
/// What cannot be had.
pub(super) fn read(name: String, of: &Map<String, Json>) -> Result<NewRule, String> {
    // `filter` is the old form.
    let sql = ["sqlFilter", "filter"].into_iter().find_map(|name| sql_text(member(of, name)?));
    let conditions = member(of, "correlationFilter").and_then(Json::as_object);
    let conditions =
        conditions.map(correlation).transpose()?.filter(|of| *of != Conditions::default());
    let filter = match (sql, conditions) {
        (Some(sql), None) => constant(sql),
        (None, Some(conditions)) => RuleFilter::Correlation(conditions),
        (None, None) => {
            let kind = member(of, "filterType").and_then(Json::as_str).unwrap_or_default();
            match kind.to_ascii_lowercase().as_str() {
                // Without a condition a rule takes everything (RULE-2).
                "" | "truefilter" => RuleFilter::True,
                "falsefilter" => RuleFilter::False,
                _ => return Err(format!("filterType is {kind}, and no such filter is given")),
            }
        }
        (Some(_), Some(_)) => {
            return Err("it has a sqlFilter and a correlationFilter; give one".to_owned());
        }
    };
    let action = member(of, "action").and_then(sql_text);
    Ok(NewRule { name, filter, action })
}

fn sql_text(of: &Json) -> Option<SqlText> {
    let text = member(of.as_object()?, "sqlExpression")?.as_str()?;
    let is_some = !text.trim().is_empty();
    is_some.then(|| SqlText { text: text.to_owned(), ..SqlText::default() })
}

/// Azure tells true and false filters so (RULE-11).
fn constant(sql: SqlText) -> RuleFilter {
    match sql.text.split_whitespace().collect::<String>().as_str() {
        "1=1" => RuleFilter::True,
        "1=0" => RuleFilter::False,
        _ => RuleFilter::Sql(sql),
    }
}

fn correlation(of: &Map<String, Json>) -> Result<Conditions, String> {
    let mut conditions = Conditions::default();
    for (name, value) in of.iter().filter(|(_, value)| !value.is_null()) {
        if name.eq_ignore_ascii_case("requiresPreprocessing") {
            continue;
        }
        if name.eq_ignore_ascii_case("properties") {
            for (name, value) in value.as_object().into_iter().flatten() {
                if let Some(value) =
                    condition(value).map_err(|why| format!("properties.{name}: {why}"))?
                {
                    conditions.properties.insert(name.clone(), value);
                }
            }
            continue;
        }
        let property = SystemProperty::named(name).filter(|property| property.is_correlated());
        let property = property.ok_or_else(|| format!("correlationFilter.{name} is not known"))?;
        let text = value.as_str().ok_or_else(|| format!("correlationFilter.{name} is no text"))?;
        if !text.is_empty() {
            conditions.system.insert(property, text.to_owned());
        }
    }
    Ok(conditions)
}

fn condition(value: &Json) -> Result<Option<Value>, String> {
    Ok(Some(match value {
        Json::Null => return Ok(None),
        Json::Bool(truth) => Value::Bool(*truth),
        Json::String(text) => Value::String(text.clone()),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => i32::try_from(whole).map_or(Value::Long(whole), Value::Int),
            None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::Array(_) | Json::Object(_) => {
            return Err("it is a text, a number, true or false".into());
        }
    }))
}
