//! The properties of queues, topics and subscriptions (ENT-3) on the command line: which flags give
//! them, and how they are shown. All of it is made from their table.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use domain::{
    AuthorizationRule, Described, EntityProperty, EntityStatus, Mutability, Patch, PropertyType,
    PropertyValue,
};
use serde_json::{Map, Value, json};

use crate::commands::authorization;
use crate::input::duration;
use crate::terminal;

/// The properties given for an entity, new or there already.
#[derive(Clone, Debug)]
pub struct Given<P, const IS_NEW: bool>(pub Patch<P>);

pub type Created<P> = Given<P, true>;
/// Without what is fixed from an entity's creation on (ENT-5).
pub type Updated<P> = Given<P, false>;

/// Takes all authorization rules away.
const NO_RULES: &str = "no-authorization-rules";

impl<P: Described, const IS_NEW: bool> clap::Args for Given<P, IS_NEW> {
    fn augment_args(command: Command) -> Command {
        command.args(offered::<P>(IS_NEW).flat_map(args::<P>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<P: Described, const IS_NEW: bool> FromArgMatches for Given<P, IS_NEW> {
    fn from_arg_matches(given: &ArgMatches) -> Result<Self, clap::Error> {
        let mut patch = Patch::default();
        for property in offered::<P>(IS_NEW) {
            if let Some(value) = property.flag.and_then(|flag| given_value(property, flag, given)) {
                patch.set(property, value);
            }
        }
        Ok(Given(patch))
    }

    fn update_from_arg_matches(&mut self, given: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(given)?;
        Ok(())
    }
}

impl<P: Described> Updated<P> {
    /// What is to be changed; refused, if that is nothing.
    pub fn some(self) -> anyhow::Result<Patch<P>> {
        if self.0.is_empty() {
            return Err(terminal::usage("nothing to change; name a property, see --help"));
        }
        Ok(self.0)
    }
}

/// Those that may be given.
fn offered<P: Described>(is_new: bool) -> impl Iterator<Item = &'static EntityProperty> {
    EntityProperty::all_of(P::KIND).filter(move |property| is_new || !is_fixed(property))
}

fn is_fixed(property: &EntityProperty) -> bool {
    match property.mutability {
        Mutability::Never(_) => true,
        Mutability::Always => false,
    }
}

/// The flags that give a property: none, one, or for a list another that empties it.
fn args<P: Described>(property: &'static EntityProperty) -> Vec<Arg> {
    let Some(flag) = property.flag else { return Vec::new() };
    let arg = Arg::new(flag).long(flag).help(help::<P>(property));
    vec![match &property.of {
        PropertyType::Duration { .. } => {
            arg.value_name("DURATION").value_parser(duration::parse_ms)
        }
        PropertyType::Number { unit, .. } => {
            arg.value_name(unit.unwrap_or("COUNT")).value_parser(value_parser!(u32))
        }
        PropertyType::Flag(_) if is_fixed(property) => arg.action(ArgAction::SetTrue),
        // Without the sign it would take the name that follows for its value.
        PropertyType::Flag(_) => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(value_parser!(bool)),
        PropertyType::Text { .. } => arg.value_name("TEXT"),
        PropertyType::Destination(_) => arg.value_name("NAME"),
        PropertyType::Status(_) => arg
            .value_name("STATUS")
            .value_parser(PossibleValuesParser::new(EntityStatus::ALL.map(status_name))),
        PropertyType::AuthorizationRules(_) => {
            let rules = arg
                .help(authorization::HELP)
                .value_name("NAME=RIGHT,…")
                .action(ArgAction::Append)
                .value_parser(authorization::parse);
            let none = Arg::new(NO_RULES)
                .long(NO_RULES)
                .help("Take all authorization rules away")
                .action(ArgAction::SetTrue)
                .conflicts_with(flag);
            return vec![rules, none];
        }
    }]
}

/// With the default, where it is more than nothing.
fn help<P: Described>(property: &EntityProperty) -> String {
    let help = property.help(P::KIND);
    let default = property.get(&P::default()).map(|default| shown_value(property, &default, false));
    match property.of {
        PropertyType::Flag(_) if default.as_deref() == Some("no") => help,
        PropertyType::Flag(_) => format!("{help} (default true)"),
        PropertyType::Duration { .. } | PropertyType::Number { .. } | PropertyType::Status(_) => {
            format!("{help} (default {})", default.unwrap_or_default())
        }
        PropertyType::Text { .. }
        | PropertyType::Destination(_)
        | PropertyType::AuthorizationRules(_) => help,
    }
}

fn given_value(property: &EntityProperty, flag: &str, given: &ArgMatches) -> Option<PropertyValue> {
    Some(match property.of {
        PropertyType::Duration { .. } => {
            PropertyValue::Duration(domain::Span(*given.get_one(flag)?))
        }
        PropertyType::Number { .. } => PropertyValue::Number(*given.get_one(flag)?),
        PropertyType::Flag(_) if is_fixed(property) => {
            given.get_flag(flag).then_some(PropertyValue::Flag(true))?
        }
        PropertyType::Flag(_) => PropertyValue::Flag(*given.get_one(flag)?),
        PropertyType::Text { .. } => PropertyValue::Text(given.get_one::<String>(flag)?.clone()),
        PropertyType::Destination(_) => {
            let name = given.get_one::<String>(flag)?;
            PropertyValue::Destination(Some(name.clone()).filter(|name| !name.is_empty()))
        }
        PropertyType::Status(_) => {
            let name = given.get_one::<String>(flag)?;
            let status = EntityStatus::ALL.into_iter().find(|status| status_name(*status) == name);
            PropertyValue::Status(status?)
        }
        PropertyType::AuthorizationRules(_) => {
            let rules = given.get_many::<AuthorizationRule>(flag).into_iter().flatten().cloned();
            let rules: Vec<AuthorizationRule> = rules.collect();
            let is_given = given.get_flag(NO_RULES) || !rules.is_empty();
            is_given.then_some(PropertyValue::AuthorizationRules(rules))?
        }
    })
}

/// What is told of an entity.
pub fn told<P: Described, W: Default>(properties: Option<W>) -> anyhow::Result<Patch<P>>
where
    Patch<P>: TryFrom<W, Error = domain::Refusal>,
{
    Ok(Patch::try_from(properties.unwrap_or_default())?)
}

/// For people, one to a line. `keys`: who looks has asked for those of the authorization rules.
pub fn shown<P: Described>(
    told: &Patch<P>,
    keys: bool,
) -> impl Iterator<Item = (&'static str, String)> {
    told.given().map(move |(property, value)| (property.label, shown_value(property, &value, keys)))
}

pub fn shown_value(property: &EntityProperty, value: &PropertyValue, keys: bool) -> String {
    match value {
        PropertyValue::Duration(span) => duration::show_ms(span.0),
        PropertyValue::Number(number) => match property.unit() {
            Some(unit) => format!("{number} {unit}"),
            None => number.to_string(),
        },
        PropertyValue::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        PropertyValue::Text(text) => text.clone(),
        PropertyValue::Destination(name) => name.clone().unwrap_or_default(),
        PropertyValue::Status(status) => status_name(*status).to_owned(),
        PropertyValue::AuthorizationRules(rules) => authorization::shown(rules, keys),
    }
}

/// By their names. Scripts find the status beside the entity's name.
pub fn as_json<P: Described>(told: &Patch<P>, keys: bool) -> Value {
    let mut members = Map::new();
    for (property, value) in told.given() {
        let value = match value {
            PropertyValue::Duration(span) => json!(duration::show_ms(span.0)),
            PropertyValue::Number(number) => json!(number),
            PropertyValue::Flag(flag) => json!(flag),
            PropertyValue::Text(text) => json!(text),
            PropertyValue::Destination(name) => json!(name),
            PropertyValue::Status(_) => continue,
            PropertyValue::AuthorizationRules(rules) => authorization::as_json(&rules, keys),
        };
        members.insert(property.name.to_owned(), value);
    }
    members.into()
}

/// The name of the status that is told.
pub fn status<P: Described>(told: &Patch<P>) -> Option<&'static str> {
    told.given().find_map(|(_, value)| match value {
        PropertyValue::Status(status) => Some(status_name(status)),
        PropertyValue::Duration(_)
        | PropertyValue::Number(_)
        | PropertyValue::Flag(_)
        | PropertyValue::Text(_)
        | PropertyValue::Destination(_)
        | PropertyValue::AuthorizationRules(_) => None,
    })
}

pub fn status_name(status: EntityStatus) -> &'static str {
    match status {
        EntityStatus::Active => "active",
        EntityStatus::Disabled => "disabled",
        EntityStatus::SendDisabled => "send-disabled",
        EntityStatus::ReceiveDisabled => "receive-disabled",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use domain::QueueProperties;

    use super::*;

    #[derive(Debug, Parser)]
    struct UpdateLine {
        name: String,
        #[command(flatten)]
        properties: Updated<QueueProperties>,
    }

    #[test]
    fn a_flag_takes_a_value_with_a_sign_and_no_name_without() {
        for (line, expected) in [
            ("update --dead-letter-on-expiration orders", Some(true)),
            ("update orders --dead-letter-on-expiration", Some(true)),
            ("update --dead-letter-on-expiration=true orders", Some(true)),
            ("update orders --dead-letter-on-expiration=false", Some(false)),
            ("update orders --max-delivery-count 5", None),
        ] {
            let given = UpdateLine::try_parse_from(line.split(' ')).expect(line);
            assert_eq!(given.name, "orders", "{line}");
            let told = QueueProperties { dead_letter_on_expiration: true, ..Default::default() };
            let other = QueueProperties { dead_letter_on_expiration: false, ..told.clone() };
            let applied = [told, other]
                .map(|base| given.properties.0.clone().applied_to(base).dead_letter_on_expiration);
            let found = (applied[0] == applied[1]).then_some(applied[0]);
            assert_eq!(found, expected, "{line}");
        }
        let line = "update orders --dead-letter-on-expiration false";
        UpdateLine::try_parse_from(line.split(' ')).expect_err("nothing is to be called 'false'");
    }
}
