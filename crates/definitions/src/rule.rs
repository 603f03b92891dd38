//! Rules and authorization rules in our own form. A filter is a text in SQL, a truth, or a table: with
//! `sql` and `parameters`, or with what must be equal.

use domain::{
    AccessRights, AuthorizationRule, Conditions, DEFAULT_RULE, NewRule, Properties, RuleFilter,
    SqlText, SystemProperty,
};
use serde_json::{Map, Value as Json};

use crate::Node;
use crate::scalar;

const FILTERS: &str = "a filter is a text in SQL, true, false, { sql = …, parameters = { … } }, or what \
                       must be equal: { subject = …, properties = { … } }";

/// A rule of a file; without a filter it takes everything.
pub(crate) fn read(
    name: String,
    filter: Option<&Json>,
    action: Option<&Json>,
) -> Result<NewRule, String> {
    let filter = match filter {
        None | Some(Json::Bool(true)) => RuleFilter::True,
        Some(Json::Bool(false)) => RuleFilter::False,
        Some(Json::Object(members)) if !members.contains_key("sql") => {
            RuleFilter::Correlation(conditions(members)?)
        }
        Some(json) => {
            RuleFilter::Sql(sql(json).map_err(|why| format!("filter: {why}"))?.ok_or(FILTERS)?)
        }
    };
    let action = match action {
        None => None,
        Some(json) => {
            let action = sql(json).map_err(|why| format!("action: {why}"))?;
            Some(action.ok_or("an action is a text in SQL, or { sql = …, parameters = { … } }")?)
        }
    };
    Ok(NewRule { name, filter, action })
}

/// None: it is no SQL.
fn sql(json: &Json) -> Result<Option<SqlText>, String> {
    let members = match json {
        Json::String(text) => {
            return Ok(Some(SqlText { text: text.clone(), ..SqlText::default() }));
        }
        Json::Object(members) => members,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => return Ok(None),
    };
    let Some(Json::String(text)) = members.get("sql") else { return Ok(None) };
    if let Some(other) = members.keys().find(|name| !["sql", "parameters"].contains(&name.as_str()))
    {
        return Err(format!("'{other}' is not known beside sql and parameters"));
    }
    let parameters = properties(members.get("parameters"), "parameters")?;
    Ok(Some(SqlText { text: text.clone(), parameters, ..SqlText::default() }))
}

fn properties(json: Option<&Json>, what: &str) -> Result<Properties, String> {
    let Some(json) = json else { return Ok(Properties::new()) };
    let members = json.as_object().ok_or_else(|| format!("{what} is a table of values"))?;
    let read = members.iter().map(|(name, json)| {
        let value = scalar::from_json(json).map_err(|why| format!("{what}.{name}: {why}"))?;
        Ok((name.clone(), value))
    });
    read.collect()
}

fn conditions(members: &Map<String, Json>) -> Result<Conditions, String> {
    let mut conditions = Conditions::default();
    for (name, json) in members {
        if name == "properties" {
            conditions.properties = properties(Some(json), "filter.properties")?;
            continue;
        }
        let known = || SystemProperty::all().filter(|property| property.is_correlated());
        let Some(property) = known().find(|property| snake(*property) == *name) else {
            let known: Vec<String> = known().map(snake).collect();
            let known = known.join(", ");
            return Err(format!(
                "filter.{name} is not known; {FILTERS}; there are {known}, properties"
            ));
        };
        let text = json.as_str().ok_or_else(|| format!("filter.{name} is a text"))?;
        conditions.system.insert(property, text.to_owned());
    }
    Ok(conditions)
}

/// `correlation_id`.
fn snake(property: SystemProperty) -> String {
    let mut name = String::new();
    for c in property.name().chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

pub(crate) fn write(rule: &NewRule) -> Node {
    let filter = match &rule.filter {
        RuleFilter::True => Node::Bool(true),
        RuleFilter::False => Node::Bool(false),
        RuleFilter::Sql(sql) => sql_node(sql),
        RuleFilter::Correlation(Conditions { system, properties, written: _ }) => {
            let texts = system.iter().map(|(property, text)| (snake(*property), Node::text(text)));
            let mut members: Vec<(String, Node)> = texts.collect();
            if !properties.is_empty() {
                members.push(("properties".to_owned(), values(properties)));
            }
            Node::Object(members)
        }
    };
    let mut members =
        vec![("name".to_owned(), Node::text(&rule.name)), ("filter".to_owned(), filter)];
    members.extend(rule.action.as_ref().map(|action| ("action".to_owned(), sql_node(action))));
    Node::Object(members)
}

fn sql_node(sql: &SqlText) -> Node {
    if sql.parameters.is_empty() {
        return Node::text(&sql.text);
    }
    let members =
        [("sql", Node::text(&sql.text)), ("parameters", values(&sql.parameters))].into_iter();
    Node::Object(members.map(|(name, node)| (name.to_owned(), node)).collect())
}

fn values(of: &Properties) -> Node {
    Node::Object(of.iter().map(|(name, value)| (name.clone(), scalar::to_node(value))).collect())
}

/// Whether two rules of one name take the same and make the same of it.
pub(crate) fn same(a: &NewRule, b: &NewRule) -> bool {
    let action = match (&a.action, &b.action) {
        (None, None) => true,
        (Some(a), Some(b)) => same_sql(a, b),
        _ => false,
    };
    let filter = match (&a.filter, &b.filter) {
        (RuleFilter::Sql(a), RuleFilter::Sql(b)) => same_sql(a, b),
        (RuleFilter::Correlation(a), RuleFilter::Correlation(b)) => {
            a.system == b.system && same_values(&a.properties, &b.properties)
        }
        (a, b) => constant(a).is_some() && constant(a) == constant(b),
    };
    action && filter
}

/// A template cannot remove the rule that a new subscription has (RULE-2): one of its name that takes
/// nothing stands for that.
pub(crate) fn is_no_default(rule: &NewRule) -> bool {
    let is_default = rule.name.eq_ignore_ascii_case(DEFAULT_RULE);
    is_default && rule.action.is_none() && constant(&rule.filter) == Some(false)
}

/// What the SDKs call true and false filters are such texts too (RULE-11).
fn constant(filter: &RuleFilter) -> Option<bool> {
    match filter {
        RuleFilter::True => Some(true),
        RuleFilter::False => Some(false),
        RuleFilter::Sql(sql) => match sql.text.split_whitespace().collect::<String>().as_str() {
            "1=1" => Some(true),
            "1=0" => Some(false),
            _ => None,
        },
        RuleFilter::Correlation(_) => None,
    }
}

fn same_sql(a: &SqlText, b: &SqlText) -> bool {
    a.text == b.text && same_values(&a.parameters, &b.parameters)
}

fn same_values(a: &Properties, b: &Properties) -> bool {
    let alike = a.iter().zip(b).all(|((x, a), (y, b))| x == y && scalar::same(a, b));
    a.len() == b.len() && alike
}

/// Authorization rules, with their keys where a file has them.
pub(crate) fn rights_list(json: &Json) -> Result<Vec<AuthorizationRule>, String> {
    let items = json.as_array().ok_or("it is a list of { name = …, rights = [ … ] }")?;
    let read = items.iter().enumerate().map(|(index, item)| {
        authorization(item).map_err(|why| format!("number {}: {why}", index + 1))
    });
    read.collect()
}

fn authorization(json: &Json) -> Result<AuthorizationRule, String> {
    let members = json.as_object().ok_or("it is no { name = …, rights = [ … ] }")?;
    let mut rule = AuthorizationRule::default();
    for (member, value) in members {
        let text = || value.as_str().map(str::to_owned).ok_or(format!("{member} is a text"));
        match member.as_str() {
            "name" => rule.name = text()?,
            "primary_key" => rule.primary_key = text()?,
            "secondary_key" => rule.secondary_key = text()?,
            "rights" => rule.rights = rights(value)?,
            _ => {
                return Err(format!(
                    "'{member}' is not known; there are name, rights, primary_key and secondary_key"
                ));
            }
        }
    }
    Ok(rule)
}

/// A list of Listen, Send and Manage, in any case; Manage takes the others with it.
pub(crate) fn rights(json: &Json) -> Result<AccessRights, String> {
    const WHICH: &str = "rights are a list of some of listen, send and manage";
    let mut given = AccessRights::default();
    for right in json.as_array().ok_or(WHICH)? {
        match right.as_str().unwrap_or_default().to_ascii_lowercase().as_str() {
            "listen" => given.listen = true,
            "send" => given.send = true,
            "manage" => given = AccessRights::ALL,
            _ => return Err(format!("{right} is no right; {WHICH}")),
        }
    }
    Ok(given)
}
