//! Templates of Azure Resource Manager, evaluated without Azure.

use std::collections::BTreeMap;

use arm_template::{Context, Error, Resource, evaluate, placeholder, source};
use serde_json::{Map, Value as Json};

use super::{AzureResource, NAMESPACES};
use crate::{Lists, Problem};

/// A template, as it was read.
#[derive(Clone, Copy)]
pub(crate) struct TemplateFile<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl TemplateFile<'_> {
    /// Of what a path leads to; with its line, where there are several.
    fn place(self, path: &str) -> String {
        let TemplateFile { name, text } = self;
        let has_lines = text.trim().contains('\n') && !path.is_empty();
        match (path, source::line_of(text, path).filter(|_| has_lines)) {
            ("", _) => format!("'{name}'"),
            (path, Some(line)) => format!("'{name}' line {line}: {path}"),
            (path, None) => format!("'{name}': {path}"),
        }
    }
}

/// The resources of namespaces in a template, and what of it was passed over.
///
/// # Errors
/// Everything that cannot be evaluated, each with its place.
pub(crate) fn read(
    template: &Json,
    parameters: &BTreeMap<String, Json>,
    file: TemplateFile<'_>,
) -> Result<(Vec<AzureResource>, Vec<String>), Vec<Problem>> {
    let told = |error: Error| Problem::new(file.place(&error.at), error.why);
    let evaluation = evaluate(template, parameters, &Context::nowhere(), &is_ours)
        .map_err(|errors| errors.into_iter().map(told).collect::<Vec<_>>())?;
    let (mut resources, mut problems) = (Vec::new(), Vec::new());
    for resource in evaluation.resources {
        match known(resource) {
            Ok(resource) => {
                let at = file.place(&resource.at);
                resources.push(AzureResource { at, ..resource });
            }
            Err(errors) => problems.extend(errors.into_iter().map(told)),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let file = file.name;
    let skipped = evaluation.skipped.iter();
    let mut notes: Vec<String> = skipped
        .map(|(kind, count)| {
            format!("'{file}': {count} of {kind} not taken over: another provider's")
        })
        .collect();
    if !evaluation.outputs.is_empty() {
        let outputs: Vec<&str> = evaluation.outputs.keys().map(String::as_str).collect();
        let outputs = outputs.join(", ");
        notes.push(format!("'{file}': outputs are not made: {outputs}"));
    }
    Ok((resources, notes))
}

fn is_ours(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    kind == NAMESPACES || kind.starts_with(&format!("{NAMESPACES}/"))
}

/// A resource of which everything is known that an entity has; of the namespace nothing has to be.
fn known(resource: Resource) -> Result<AzureResource, Vec<Error>> {
    let Resource { at, kind, name, is_existing, mut body, .. } = resource;
    let properties = body.remove("properties").unwrap_or_default();
    let kind = kind.to_ascii_lowercase();
    let kind = kind.trim_start_matches(NAMESPACES).trim_start_matches('/').to_owned();
    let names: Vec<String> = name.split('/').skip(1).map(str::to_owned).collect();
    let unknown = |what: &str| {
        format!("it depends on {what}, which Azure alone knows; give the value as a parameter")
    };
    let mut errors = Vec::new();
    if let Some(what) = names.iter().find_map(|name| placeholder::unknown_text(name)) {
        errors.push(Error::new(format!("{at}.name"), unknown(what)));
    }
    let mut members = Map::new();
    match properties {
        Json::Object(of) => members = of,
        Json::Null => (),
        other if !kind.is_empty() => errors.push(Error::new(
            format!("{at}.properties"),
            placeholder::unknown(&other).map_or("it is no object".to_owned(), unknown),
        )),
        _ => (),
    }
    if !kind.is_empty() {
        for (name, value) in &members {
            if let Some(what) = placeholder::unknown(value) {
                errors.push(Error::new(format!("{at}.properties.{name}"), unknown(what)));
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let lists = Lists::Added;
    Ok(AzureResource { at, kind, names, properties: members, is_existing, lists })
}
