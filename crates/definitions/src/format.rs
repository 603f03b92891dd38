//! Which form a file has, told by what it holds.

use std::collections::BTreeMap;

use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::Value as Json;

use crate::azure::{self, AzureResource, TemplateFile};
use crate::document::{self, toml_to_json};
use crate::{Definitions, Problem, emulator};

/// JSON, comments, and commas behind the last of a list: no more than editors allow in such files.
const DIALECT: ParseOptions =
    ParseOptions { allow_loose_object_property_names: false, ..arm_template::source::DIALECT };

/// A file that was read: definitions, or resources that may belong to those of other files.
#[derive(Clone, Debug)]
pub struct Parsed {
    definitions: Definitions,
    resources: Vec<AzureResource>,
}

/// Values for the parameters of templates.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// From files.
    pub given: BTreeMap<String, Json>,
    /// As typed; they count before those of files.
    pub typed: Vec<(String, String)>,
}

/// Reads a file's definitions, whatever its form. `file` is named in every place.
///
/// # Errors
/// Everything that is wrong with it, each with its place.
pub fn read(text: &str, file: &str, parameters: &Parameters) -> Result<Parsed, Vec<Problem>> {
    // An editor of another system may have put it there.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json = if is_json(text) { json(text, file)? } else { toml(text, file)? };
    if let Some(listed) = azure::read_list(&json, file) {
        return Ok(Parsed { definitions: Definitions::default(), resources: listed? });
    }
    if is_template(&json) {
        let given = parameters.of(&json, file)?;
        let (resources, notes) =
            azure::read_template(&json, &given, TemplateFile { name: file, text })?;
        let definitions = Definitions { notes, ..Definitions::default() };
        return Ok(Parsed { definitions, resources });
    }
    let definitions = match has(&json, "UserConfig") {
        true => emulator::read(json, file)?,
        false => document::read(&json, file)?,
    };
    Ok(Parsed { definitions, resources: Vec::new() })
}

/// Several files as one.
///
/// # Errors
/// Everything of Azure's resources that cannot be had.
pub fn merged(files: Vec<Parsed>) -> Result<Definitions, Vec<Problem>> {
    let (mut definitions, mut resources) = (Definitions::default(), Vec::new());
    for file in files {
        definitions.extend(file.definitions);
        resources.extend(file.resources);
    }
    definitions.extend(azure::definitions(resources)?);
    Ok(definitions)
}

impl Parameters {
    fn of(&self, template: &Json, file: &str) -> Result<BTreeMap<String, Json>, Vec<Problem>> {
        let mut given = self.given.clone();
        for (name, text) in &self.typed {
            let value = arm_template::typed(template, name, text).map_err(|error| {
                vec![Problem::new(format!("'{file}': {}", error.at), error.why)]
            })?;
            given.insert(name.clone(), value);
        }
        Ok(given)
    }

    /// Adds those of a file.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place.
    pub fn read(&mut self, text: &str, file: &str) -> Result<(), Vec<Problem>> {
        let json = json(text.strip_prefix('\u{feff}').unwrap_or(text), file)?;
        let told =
            |error: arm_template::Error| Problem::new(format!("'{file}': {}", error.at), error.why);
        let read = arm_template::parameter_file(&json);
        let read = read.map_err(|errors| errors.into_iter().map(told).collect::<Vec<_>>())?;
        self.given.extend(read);
        Ok(())
    }
}

/// Whatever the case of its name.
fn has(json: &Json, name: &str) -> bool {
    let names = json.as_object().into_iter().flat_map(|members| members.keys());
    names.into_iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn is_template(json: &Json) -> bool {
    let schema = json.get("$schema").and_then(Json::as_str).unwrap_or_default();
    schema.to_ascii_lowercase().contains("deploymenttemplate.json")
        || (has(json, "resources") && has(json, "contentVersion"))
}

/// Reads the configuration file of an emulator.
///
/// # Errors
/// What is wrong with it, with its place.
pub fn read_emulator(text: &str, file: &str) -> Result<Definitions, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    emulator::read(json(text, file)?, file)
}

/// TOML's tables in brackets are no lists.
fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    let inside = text.strip_prefix('[').map(str::trim_start);
    let is_list = inside.is_some_and(|inside| inside.starts_with(['{', ']']));
    is_list || text.starts_with('{') || text.starts_with("//") || text.starts_with("/*")
}

fn json(text: &str, file: &str) -> Result<Json, Vec<Problem>> {
    let parsed: Result<Option<Json>, _> = parse_to_serde_value(text, &DIALECT);
    match parsed {
        Ok(json) => Ok(json.unwrap_or_default()),
        Err(error) => {
            Err(vec![Problem::new(format!("'{file}'"), format!("it is no JSON: {error}"))])
        }
    }
}

fn toml(text: &str, file: &str) -> Result<Json, Vec<Problem>> {
    match text.parse::<toml::Table>() {
        Ok(table) => Ok(toml_to_json(table.into())),
        Err(error) => {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let at = match line {
                Some(line) => format!("'{file}' line {line}"),
                None => format!("'{file}'"),
            };
            Err(vec![Problem::new(at, format!("it is no TOML: {}", error.message()))])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_what_it_holds() {
        for (text, expected) in [
            ("{}", true),
            ("  // a comment\n{}", true),
            ("[ {\"id\": 1} ]", true),
            ("[]", true),
            ("[[queues]]\nname = \"a\"", false),
            ("version = 1", false),
            ("# {\nversion = 1", false),
            ("", false),
        ] {
            assert_eq!(is_json(text), expected, "{text}");
        }
    }

    /// Everything at once, each with its place.
    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let head = "version = 1\n";
        let queue = |more: &str| format!("{head}[[queues]]\nname = \"a\"\n{more}\n");
        for (text, told) in [
            ("version = 1\nqueues = [", "'f' line 2: it is no TOML: "),
            ("{\"version\": 1,, }", "'f': it is no JSON: "),
            ("", "'f': it lacks `version`; write version = 1"),
            ("version = 2", "'f': version: 2 is not known to this mayfly, which reads 1"),
            (
                "version = 1\nqueue = 1",
                "'f': queue: it is not known here; known are version, queues, topics",
            ),
            ("version = 1\nqueues = 1", "'f': queues: it is a list"),
            ("version = 1\n[[queues]]", "'f': queues[0]: it lacks `name`, a text"),
            (
                &queue("lock_durtion = \"1s\""),
                "'f': queues[0].lock_durtion: no queue has it; did you mean lock_duration?",
            ),
            (
                &queue("LockDuration = \"1s\""),
                "'f': queues[0].LockDuration: no queue has it; did you mean lock_duration?",
            ),
            (
                &queue("filter_before_publishing = true"),
                "'f': queues[0].filter_before_publishing: no queue has it; there are status, ",
            ),
            (
                &queue("lock_duration = 5"),
                "'f': queues[0].lock_duration: it is a duration as a text, like \"30s\" or \"never\"",
            ),
            (&queue("lock_duration = \"5\""), "'f': queues[0].lock_duration: '5' has no unit"),
            (
                &queue("max_delivery_count = -1"),
                "'f': queues[0].max_delivery_count: -1 is no such number: 1 to 2147483647",
            ),
            (&queue("status = \"off\""), "'f': queues[0].status: 'off' is no status; write active"),
            (
                &queue("authorization_rules = [{ name = \"a\", rights = [\"read\"] }]"),
                "'f': queues[0].authorization_rules: number 1: \"read\" is no right; rights are",
            ),
            (
                &format!(
                    "{head}[[topics]]\nname = \"t\"\n[[topics.subscriptions]]\nname = \"s\"\n[[topics.subscriptions.rules]]\nname = \"r\"\nfilter = {{ colour = \"x\" }}\n"
                ),
                "'f': topics[0].subscriptions[0].rules[0]: filter.colour is not known; a filter is",
            ),
        ] {
            let problems = read(text, "f", &Parameters::default()).expect_err(text);
            let first = problems[0].to_string();
            assert!(first.starts_with(told), "{first}");
            assert_eq!(problems.len(), 1, "{problems:?}");
        }
        let two = queue("lock_duration = 5\nstatus = 7");
        assert_eq!(read(&two, "f", &Parameters::default()).expect_err("two").len(), 2);
    }
}
