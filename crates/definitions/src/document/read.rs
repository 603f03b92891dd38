//! What a document says.

use domain::{
    Described, EntityKind, EntityProperty, EntityStatus, Patch, PropertyType, PropertyValue, Span,
};
use serde_json::{Map, Value as Json};

use super::VERSION;
use crate::{
    Definitions, EntityDefinition, Problem, RuleDefinition, SubscriptionDefinition, duration, rule,
};

/// Reads definitions in our own form. `file` is named in every place.
///
/// # Errors
/// Everything that is wrong with the document's form and values, each with its place.
pub fn read(json: &Json, file: &str) -> Result<Definitions, Vec<Problem>> {
    let mut reading = Reading::default();
    let mut definitions = Definitions::default();
    let root = Place { file, path: String::new() };
    if let Some(members) = reading.object(json, &root, "the document") {
        reading.version(members, &root);
        reading.only(members, &root, &["version", "queues", "topics"]);
        for (item, at) in reading.items(members, "queues", &root) {
            definitions.queues.extend(reading.entity(item, &at, &[]));
        }
        for (item, at) in reading.items(members, "topics", &root) {
            let Some(topic) = reading.entity(item, &at, &["subscriptions"]) else { continue };
            let Json::Object(members) = item else { continue };
            for (item, at) in reading.items(members, "subscriptions", &at) {
                definitions.subscriptions.extend(reading.subscription(item, &at, &topic.name));
            }
            definitions.topics.push(topic);
        }
    }
    match reading.problems.is_empty() {
        true => Ok(definitions),
        false => Err(reading.problems),
    }
}

/// Where something stands: `'mayfly.toml': topics[0].subscriptions[1]`.
struct Place<'a> {
    file: &'a str,
    path: String,
}

impl Place<'_> {
    fn below(&self, name: &str) -> Self {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Place { file: self.file, path }
    }

    fn item(&self, name: &str, index: usize) -> Self {
        self.below(&format!("{name}[{index}]"))
    }

    fn told(&self) -> String {
        match self.path.as_str() {
            "" => format!("'{}'", self.file),
            path => format!("'{}': {path}", self.file),
        }
    }
}

#[derive(Default)]
struct Reading {
    problems: Vec<Problem>,
}

impl Reading {
    fn wrong(&mut self, at: &Place<'_>, why: impl std::fmt::Display) {
        self.problems.push(Problem::new(at.told(), why));
    }

    fn object<'j>(
        &mut self,
        json: &'j Json,
        at: &Place<'_>,
        what: &str,
    ) -> Option<&'j Map<String, Json>> {
        let members = json.as_object();
        if members.is_none() {
            self.wrong(at, format!("{what} is a table (an object in JSON)"));
        }
        members
    }

    fn version(&mut self, members: &Map<String, Json>, root: &Place<'_>) {
        match members.get("version") {
            None => self.wrong(root, format!("it lacks `version`; write version = {VERSION}")),
            Some(version) if version.as_u64() == Some(VERSION) => (),
            Some(version) => self.wrong(
                &root.below("version"),
                format!("{version} is not known to this mayfly, which reads {VERSION}"),
            ),
        }
    }

    /// Members that nobody knows are slips.
    fn only(&mut self, members: &Map<String, Json>, at: &Place<'_>, known: &[&str]) {
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            self.wrong(
                &at.below(name),
                format!("it is not known here; known are {}", known.join(", ")),
            );
        }
    }

    /// The items of a list; none where there is no list.
    fn items<'j, 'p>(
        &mut self,
        members: &'j Map<String, Json>,
        name: &str,
        at: &Place<'p>,
    ) -> Vec<(&'j Json, Place<'p>)> {
        match members.get(name) {
            None => Vec::new(),
            Some(Json::Array(items)) => {
                let items = items.iter().enumerate();
                items.map(|(index, item)| (item, at.item(name, index))).collect()
            }
            Some(_) => {
                self.wrong(&at.below(name), "it is a list");
                Vec::new()
            }
        }
    }

    fn name(&mut self, members: &Map<String, Json>, at: &Place<'_>) -> Option<String> {
        let name = members.get("name").and_then(Json::as_str);
        if name.is_none() {
            self.wrong(at, "it lacks `name`, a text");
        }
        name.map(str::to_owned)
    }

    /// `more`: members that are no properties.
    fn entity<P: Described>(
        &mut self,
        json: &Json,
        at: &Place<'_>,
        more: &[&str],
    ) -> Option<EntityDefinition<P>> {
        let members = self.object(json, at, P::KIND.as_str())?;
        let name = self.name(members, at)?;
        let mut properties = Patch::default();
        for (member, value) in members {
            if member == "name" || more.contains(&member.as_str()) {
                continue;
            }
            let at = at.below(member);
            match EntityProperty::all_of(P::KIND).find(|property| property.name == member) {
                Some(property) => match property_value(property, value) {
                    Ok(value) => properties.set(property, value),
                    Err(why) => self.wrong(&at, why),
                },
                None => self.wrong(&at, unknown(P::KIND, member)),
            }
        }
        Some(EntityDefinition { at: at.told(), name, properties, ..EntityDefinition::default() })
    }

    fn subscription(
        &mut self,
        json: &Json,
        at: &Place<'_>,
        topic: &str,
    ) -> Option<SubscriptionDefinition> {
        let entity = self.entity(json, at, &["rules"])?;
        let Json::Object(members) = json else { return None };
        let mut rules = members.contains_key("rules").then(Vec::new);
        for (item, at) in self.items(members, "rules", at) {
            let Some(members) = self.object(item, &at, "a rule") else { continue };
            let Some(name) = self.name(members, &at) else { continue };
            self.only(members, &at, &["name", "filter", "action"]);
            match rule::read(name, members.get("filter"), members.get("action")) {
                Ok(rule) => {
                    rules.get_or_insert_default().push(RuleDefinition { at: at.told(), rule });
                }
                Err(why) => self.wrong(&at, why),
            }
        }
        Some(SubscriptionDefinition { topic: topic.to_owned(), entity, rules })
    }
}

/// A slip is told with what was perhaps meant.
fn unknown(kind: EntityKind, member: &str) -> String {
    let known = || EntityProperty::all_of(kind).map(|property| property.name);
    let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    let of_service_bus = EntityProperty::all_of(kind).find(|property| {
        plain(property.element) == plain(member) || plain(property.name) == plain(member)
    });
    let meant = of_service_bus.map(|property| property.name).or_else(|| {
        known().min_by_key(|name| distance(name, member)).filter(|name| distance(name, member) <= 3)
    });
    match meant {
        Some(meant) => format!("no {} has it; did you mean {meant}?", kind.as_str()),
        None => {
            let known: Vec<&str> = known().collect();
            format!("no {} has it; there are {}", kind.as_str(), known.join(", "))
        }
    }
}

/// How many characters have to be put in, taken out or exchanged. Of short texts.
fn distance(a: &str, b: &str) -> usize {
    const CHARS_MAX: usize = 64;
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(CHARS_MAX).collect(), b.chars().take(CHARS_MAX).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let exchanged = before + usize::from(from != to);
            before = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}

/// The value of a property in our own form.
fn property_value(property: &EntityProperty, json: &Json) -> Result<PropertyValue, String> {
    let text = || json.as_str().ok_or("it is a text".to_owned());
    Ok(match &property.of {
        PropertyType::Duration { .. } => {
            let text =
                json.as_str().ok_or("it is a duration as a text, like \"30s\" or \"never\"")?;
            PropertyValue::Duration(Span(duration::parse_ms(text)?))
        }
        PropertyType::Number { allowed, .. } => {
            let number = json.as_u64().and_then(|number| u32::try_from(number).ok());
            PropertyValue::Number(
                number.ok_or_else(|| format!("{json} is no such number: {allowed}"))?,
            )
        }
        PropertyType::Flag(_) => PropertyValue::Flag(
            json.as_bool().ok_or_else(|| format!("{json} is neither true nor false"))?,
        ),
        PropertyType::Text { .. } => PropertyValue::Text(text()?.to_owned()),
        PropertyType::Destination(_) => {
            PropertyValue::Destination(Some(text()?.to_owned()).filter(|name| !name.is_empty()))
        }
        PropertyType::Status(_) => PropertyValue::Status(status(text()?)?),
        PropertyType::AuthorizationRules(_) => {
            PropertyValue::AuthorizationRules(rule::rights_list(json)?)
        }
    })
}

/// A status, in whatever spelling: `send-disabled`, `SendDisabled`.
pub(crate) fn status(text: &str) -> Result<EntityStatus, String> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    let found = EntityStatus::ALL.into_iter().find(|status| plain(status.as_str()) == plain(text));
    found.ok_or_else(|| {
        format!("'{text}' is no status; write active, disabled, send-disabled or receive-disabled")
    })
}
