//! Definitions as part of another file: its tables of queues and topics, with all their checks.

use serde_json::{Map, Value as Json};

use crate::{Definitions, Found, Options, Problem, document, plan};

/// Reads the tables `[[queues]]` and `[[topics]]` of a file.
///
/// # Errors
/// The first problem; [`Problem::path_in`] says where in the file.
pub fn section(
    queues: Vec<toml::Table>,
    topics: Vec<toml::Table>,
    file: &str,
) -> Result<Definitions, Problem> {
    let list = |tables: Vec<toml::Table>| {
        Json::Array(tables.into_iter().map(|of| document::toml_to_json(of.into())).collect())
    };
    let members = [
        ("version".to_owned(), Json::from(document::VERSION)),
        ("queues".to_owned(), list(queues)),
        ("topics".to_owned(), list(topics)),
    ];
    let json = Json::Object(Map::from_iter(members));
    let first = |problems: Vec<Problem>| {
        problems.into_iter().next().unwrap_or_else(|| Problem::new(file, "it cannot be read"))
    };
    let entities = document::read(&json, file).map_err(first)?;
    plan(&entities, &Found::default(), Options::default()).map_err(first)?;
    Ok(entities)
}
