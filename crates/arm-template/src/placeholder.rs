//! Values that Azure alone knows: what another resource answers, keys, names of the subscription. They are
//! texts with a mark that no template has, which they keep in whatever is made of them.

use serde_json::{Map, Value};

/// Of the private use area.
const MARK: char = '\u{e000}';

/// A text in the place of a value; `what` says where that would come from.
pub(crate) fn text(what: &str) -> Value {
    let what: String = what.chars().filter(|c| *c != MARK && *c != '/').collect();
    Value::String(format!("{MARK}{what}{MARK}"))
}

/// An object of which some members are known, and any other is a placeholder.
pub(crate) fn object(what: &str, known: Map<String, Value>) -> Value {
    let mut members = known;
    members.insert(MARK.to_string(), text(what));
    Value::Object(members)
}

/// A member of such an object, or of such a text, that is not known.
pub(crate) fn member(of: &Value, name: &str) -> Option<Value> {
    let what = match of {
        Value::String(text) => unknown_text(text)?,
        Value::Object(members) => unknown_text(members.get(&MARK.to_string())?.as_str()?)?,
        _ => return None,
    };
    Some(text(&format!("{what}.{name}")))
}

/// What a text depends on that is not known.
pub fn unknown_text(text: &str) -> Option<&str> {
    text.split(MARK).nth(1)
}

/// A sentence about something that is not known, which is known by its mark.
pub(crate) fn marked(sentence: &str) -> String {
    format!("{MARK}{MARK}{sentence}")
}

pub(crate) fn unmarked(sentence: String) -> String {
    match sentence.contains(MARK) {
        true => sentence.replace(MARK, ""),
        false => sentence,
    }
}

/// What a value depends on that is not known.
pub fn unknown(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => unknown_text(text),
        Value::Array(values) => values.iter().find_map(unknown),
        Value::Object(members) => members.values().find_map(unknown),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The same for people: what is not known stands in brackets.
pub fn shown(value: &Value) -> Value {
    match value {
        Value::String(text) => match unknown_text(text) {
            Some(what) => Value::String(format!("[{what}]")),
            None => value.clone(),
        },
        Value::Array(values) => values.iter().map(shown).collect(),
        Value::Object(members) => match members.get(&MARK.to_string()).and_then(unknown) {
            Some(what) => Value::String(format!("[{what}]")),
            None => members.iter().map(|(name, of)| (name.clone(), shown(of))).collect(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
