//! `mayfly rule`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use client::v1;
use client::v1::filter::Kind;
use domain::{Filter, MatchCost, Properties, RuleFilter, Subject, SystemProperty, SystemValue};
use serde_json::{Value, json};
use wire::content;

use crate::commands::Output;
use crate::connect::ConnectWithin;
use crate::input::{instant, property};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly rule create prices eur large --filter \"amount > 1000 AND currency = 'EUR'\"
  mayfly rule create prices eur marked --action \"SET marked = TRUE\"
  mayfly rule delete prices eur '$Default'
  mayfly rule list prices eur
  mayfly rule test --filter \"amount > @least\" --parameter least:int=5 --message message.json

A message file for `rule test` is JSON:
  {\"properties\": {\"amount\": 7, \"currency\": \"EUR\"}, \"subject\": \"price\"}";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RuleArgs {
    #[command(subcommand)]
    command: RuleCommand,
}

#[derive(Debug, Subcommand)]
enum RuleCommand {
    /// Add a rule to a subscription
    Create {
        #[command(flatten)]
        path: RulePath,
        #[command(flatten)]
        selection: Selection,
        #[command(flatten)]
        connect: ConnectWithin,
    },
    /// One rule of a subscription
    Show {
        #[command(flatten)]
        path: RulePath,
        #[command(flatten)]
        output: Output,
    },
    /// A subscription's rules, in order of name
    List {
        /// Name of the topic
        topic: String,
        /// Name of the subscription
        subscription: String,
        #[command(flatten)]
        output: Output,
    },
    /// Put another filter and action in the place of a rule's
    Update {
        #[command(flatten)]
        path: RulePath,
        #[command(flatten)]
        selection: Selection,
        #[command(flatten)]
        connect: ConnectWithin,
    },
    /// Remove a rule from a subscription
    Delete {
        #[command(flatten)]
        path: RulePath,
        /// No error where it does not exist
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        connect: ConnectWithin,
    },
    /// Say whether a filter takes a message, and if not, why; asks no broker
    Test {
        #[command(flatten)]
        selection: Selection,
        /// A message as JSON
        #[arg(long, value_name = "FILE")]
        message: PathBuf,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct RulePath {
    /// Name of the topic
    topic: String,
    /// Name of the subscription
    subscription: String,
    /// Name of the rule
    name: String,
}

/// What a rule takes, and what it makes of it.
#[derive(Clone, Debug, clap::Args)]
pub struct Selection {
    /// Take what this SQL condition is true for
    #[arg(long, value_name = "SQL", conflicts_with = "equal")]
    filter: Option<String>,
    /// Take what has this property: name=value, or sys.Subject=value; all that are given must hold
    #[arg(long, value_name = "PROPERTY")]
    equal: Vec<String>,
    /// Change the copy: SET name = expression, REMOVE name
    #[arg(long, value_name = "SQL")]
    action: Option<String>,
    /// A parameter @name of filter and action: name=value, or name:type=value
    #[arg(long, value_name = "PROPERTY", value_parser = property::parse)]
    parameter: Vec<(String, v1::Value)>,
}

impl Selection {
    /// Without a name it is nothing if nothing is given.
    pub fn into_rule(self, name: Option<String>) -> anyhow::Result<Option<v1::Rule>> {
        if name.is_none() && self.filter.is_none() && self.equal.is_empty() && self.action.is_none()
        {
            return Ok(None);
        }
        let sql =
            |text: String| v1::Sql { text, parameters: self.parameter.iter().cloned().collect() };
        let kind = match self.filter {
            Some(text) => Kind::Sql(sql(text)),
            None if self.equal.is_empty() => Kind::Constant(true),
            None => Kind::Correlation(correlation(&self.equal)?),
        };
        Ok(Some(v1::Rule {
            name: name.unwrap_or_default(),
            filter: Some(v1::Filter { kind: Some(kind) }),
            action: self.action.map(sql),
            created_at_ms: 0,
        }))
    }
}

fn correlation(equal: &[String]) -> anyhow::Result<v1::Correlation> {
    let mut correlation = v1::Correlation::default();
    for condition in equal {
        let Some(system) = condition.strip_prefix("sys.") else {
            let (name, value) = property::parse(condition).map_err(|why| terminal::usage(&why))?;
            correlation.properties.insert(name, value);
            continue;
        };
        let (name, value) = system.split_once('=').unwrap_or((system, ""));
        let place = match SystemProperty::named(name) {
            Some(SystemProperty::CorrelationId) => &mut correlation.correlation_id,
            Some(SystemProperty::MessageId) => &mut correlation.message_id,
            Some(SystemProperty::To) => &mut correlation.to,
            Some(SystemProperty::ReplyTo) => &mut correlation.reply_to,
            Some(SystemProperty::Subject) => &mut correlation.subject,
            Some(SystemProperty::SessionId) => &mut correlation.session_id,
            Some(SystemProperty::ReplyToSessionId) => &mut correlation.reply_to_session_id,
            Some(SystemProperty::ContentType) => &mut correlation.content_type,
            _ => return Err(terminal::usage(format!("'sys.{name}' cannot be correlated on"))),
        };
        *place = Some(value.to_owned());
    }
    Ok(correlation)
}

pub async fn run(args: RuleArgs) -> anyhow::Result<()> {
    match args.command {
        RuleCommand::Create { path, selection, connect } => {
            put(path, selection, connect, false, "created").await
        }
        RuleCommand::Update { path, selection, connect } => {
            put(path, selection, connect, true, "updated").await
        }
        RuleCommand::Show { path: RulePath { topic, subscription, name }, output } => {
            let rules = output.connect.client()?.list_rules(&topic, &subscription).await?;
            let found = rules.iter().find(|rule| rule.name.eq_ignore_ascii_case(&name));
            let rule = found.with_context(|| format!("rule '{name}' does not exist"))?;
            match output.json {
                true => terminal::json(&as_json(rule)),
                false => super::show([
                    ("name", rule.name.clone()),
                    ("filter", filter_text(rule)),
                    ("action", action_text(rule)),
                    ("created", instant::show_ms(rule.created_at_ms)),
                ]),
            }
        }
        RuleCommand::List { topic, subscription, output } => {
            let rules = output.connect.client()?.list_rules(&topic, &subscription).await?;
            if output.json {
                return terminal::json(&rules.iter().map(as_json).collect::<Vec<_>>());
            }
            if rules.is_empty() {
                return terminal::line("no rules: the subscription receives nothing");
            }
            let row =
                |rule: &v1::Rule| vec![rule.name.clone(), filter_text(rule), action_text(rule)];
            let rows = rules.iter().map(row).collect();
            terminal::line(terminal::table(&["name", "filter", "action"], &[], rows))
        }
        RuleCommand::Delete {
            path: RulePath { topic, subscription, name },
            if_exists,
            connect,
        } => {
            let removed = connect.client()?.remove_rule(&topic, &subscription, &name).await;
            super::told_deleted(&format!("rule '{name}'"), removed, if_exists)
        }
        RuleCommand::Test { selection, message } => test(selection, &message),
    }
}

async fn put(
    path: RulePath,
    selection: Selection,
    connect: ConnectWithin,
    replace: bool,
    what: &str,
) -> anyhow::Result<()> {
    let RulePath { topic, subscription, name } = path;
    let rule = selection.into_rule(Some(name.clone()))?.unwrap_or_default();
    connect.client()?.put_rule(&topic, &subscription, rule, replace).await?;
    terminal::line(format!("rule '{name}' of '{topic}/{subscription}' {what}"))
}

/// A rule's filter as SQL would put it.
fn filter_text(rule: &v1::Rule) -> String {
    match rule.filter.as_ref().and_then(|filter| filter.kind.as_ref()) {
        None => "1=1".to_owned(),
        Some(Kind::Sql(sql)) => sql.text.clone(),
        Some(_) => match compiled(rule.clone()) {
            Ok(filter) => filter.to_string(),
            Err(error) => error.to_string(),
        },
    }
}

fn action_text(rule: &v1::Rule) -> String {
    rule.action.as_ref().map(|sql| sql.text.clone()).unwrap_or_default()
}

fn compiled(rule: v1::Rule) -> anyhow::Result<Filter> {
    let filter: RuleFilter = wire::native::rule_from_v1(rule)?.filter;
    Ok(filter.compile()?)
}

fn as_json(rule: &v1::Rule) -> Value {
    json!({
        "name": rule.name,
        "filter": filter_text(rule),
        "action": rule.action.as_ref().map(|sql| &sql.text),
        "created_at": instant::show_ms(rule.created_at_ms),
    })
}

/// As the broker decides it, on a message nobody sent.
fn test(selection: Selection, path: &std::path::Path) -> anyhow::Result<()> {
    let rule = selection.into_rule(Some("test".to_owned()))?.unwrap_or_default();
    let rule = wire::native::rule_from_v1(rule)?;
    let filter = rule.filter.compile()?;
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("message file '{}' cannot be read", path.display()))?;
    let json: Value = serde_json::from_str(&text)
        .with_context(|| format!("message file '{}' is no JSON", path.display()))?;
    let message = Sample(content::header(&content::encode(&sample(&json)?)).unwrap_or_default());
    let mut draw = rand_bits();
    for line in filter.explain(&message, &mut draw) {
        terminal::line(line)?;
    }
    let Some(action) = &rule.action else { return Ok(()) };
    match action.compile_action()?.run(&message, &mut draw, &mut MatchCost::default()) {
        Ok(change) => terminal::line(format!("the action makes of it: {change:?}")),
        Err(error) => terminal::line(format!("{}: {error}", error.name())),
    }
}

/// `newid()` here need not be random, only new.
fn rand_bits() -> impl FnMut() -> u64 {
    let mut state = uuid::Uuid::new_v4().as_u128() as u64;
    move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state
    }
}

struct Sample(domain::ContentHeader);

impl Subject for Sample {
    fn system(&self, property: SystemProperty) -> Option<SystemValue<'_>> {
        if let Some(text) = self.0.texts.get(&property) {
            return Some(SystemValue::Text(text));
        }
        match property {
            SystemProperty::TimeToLive => self.0.ttl.map(SystemValue::Duration),
            SystemProperty::ScheduledEnqueueTimeUtc => {
                self.0.scheduled_at.map(SystemValue::Instant)
            }
            SystemProperty::DeliveryCount | SystemProperty::State => Some(SystemValue::Number(0)),
            _ => None,
        }
    }

    fn properties(&self) -> &Properties {
        &self.0.properties
    }
}

/// A message from JSON, with the names that `receive` prints.
fn sample(json: &Value) -> anyhow::Result<v1::Message> {
    let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut message = v1::Message {
        message_id: text("message_id"),
        session_id: text("session_id"),
        reply_to_session_id: text("reply_to_session_id"),
        partition_key: text("partition_key"),
        correlation_id: text("correlation_id"),
        subject: text("subject"),
        to: text("to"),
        reply_to: text("reply_to"),
        content_type: text("content_type"),
        ttl_ms: json.get("ttl_ms").and_then(Value::as_u64),
        ..v1::Message::default()
    };
    let Some(properties) = json.get("properties").and_then(Value::as_object) else {
        return Ok(message);
    };
    for (name, value) in properties {
        use v1::value::Kind;
        let kind = match value {
            Value::Null => Kind::Null(true),
            Value::Bool(value) => Kind::BoolValue(*value),
            Value::String(value) => Kind::StringValue(value.clone()),
            Value::Number(value) => match value.as_i64() {
                Some(value) => Kind::LongValue(value),
                None => Kind::DoubleValue(value.as_f64().unwrap_or(f64::NAN)),
            },
            Value::Array(_) | Value::Object(_) => {
                anyhow::bail!("property '{name}' is no text, number, true, false or null")
            }
        };
        message.properties.insert(name.clone(), v1::Value { kind: Some(kind) });
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_24_a_filter_is_tried_on_a_message_from_json() {
        let json = json!({"properties": {"n": 5, "c": "red"}, "subject": "hi"});
        let header = content::header(&content::encode(&sample(&json).unwrap())).unwrap();
        let subject = Sample(header);
        for (text, first) in
            [("n = 5 AND c = 'red' AND sys.Subject = 'hi'", "matches"), ("n > 5", "does not match")]
        {
            let filter = Filter::sql(text, &Properties::new()).unwrap();
            let lines = filter.explain(&subject, &mut rand_bits());
            assert!(lines[0].starts_with(first), "{lines:?}");
        }
    }
}
