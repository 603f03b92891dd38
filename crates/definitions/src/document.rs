//! Definitions in our own form, as TOML or JSON: the same tables and names in both.
//!
//! ```toml
//! version = 1
//!
//! [[queues]]
//! name = "orders"
//! lock_duration = "30s"
//!
//! [[topics]]
//! name = "prices"
//!
//! [[topics.subscriptions]]
//! name = "eur"
//!
//! [[topics.subscriptions.rules]]
//! name = "large"
//! filter = "amount > 1000"
//! ```

mod read;
mod write;

pub use read::read;
pub(crate) use read::status;
pub use write::write;

use serde_json::Value as Json;

/// Of the form itself: another number is another meaning.
pub const VERSION: u64 = 1;

/// TOML as JSON. Its dates are texts: no member of the form is one.
pub fn toml_to_json(value: toml::Value) -> Json {
    match value {
        toml::Value::String(text) => Json::String(text),
        toml::Value::Integer(number) => Json::from(number),
        // One that JSON does not have is told of where it stands: it is no number there.
        toml::Value::Float(number) => {
            serde_json::Number::from_f64(number).map_or(Json::Null, Json::Number)
        }
        toml::Value::Boolean(flag) => Json::Bool(flag),
        toml::Value::Datetime(at) => Json::String(at.to_string()),
        toml::Value::Array(values) => values.into_iter().map(toml_to_json).collect(),
        toml::Value::Table(table) => {
            Json::Object(table.into_iter().map(|(name, of)| (name, toml_to_json(of))).collect())
        }
    }
}
