//! Values of a template's parameters: those that are given, and whether they may be.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::function::kind;
use crate::scope::{Run, Scope, member};
use crate::{Error, placeholder};

/// What a file of parameters gives (`deploymentParameters.json`, and what `bicep build-params` writes).
///
/// # Errors
/// That it is no such file, and values that stand in a key vault, each with its place.
pub fn parameter_file(json: &Value) -> Result<BTreeMap<String, Value>, Vec<Error>> {
    // What bicep writes has it as a text beside the template.
    if let Some(text) = json.get("parametersJson").and_then(Value::as_str) {
        let inner = serde_json::from_str(text)
            .map_err(|error| vec![Error::new("parametersJson", error.to_string())])?;
        return parameter_file(&inner);
    }
    let Some(Value::Object(members)) = json.get("parameters") else {
        return Err(vec![Error::here("it lacks `parameters`, an object")]);
    };
    let (mut given, mut errors) = (BTreeMap::new(), Vec::new());
    for (name, of) in members {
        match of.get("value") {
            Some(value) => drop(given.insert(name.clone(), value.clone())),
            None if of.get("reference").is_some() => errors.push(Error::new(
                format!("parameters.{name}"),
                "its value is a secret of a key vault; give the value itself",
            )),
            None => errors.push(Error::new(format!("parameters.{name}"), "it lacks a `value`")),
        }
    }
    if errors.is_empty() { Ok(given) } else { Err(errors) }
}

/// A value as typed, of the type that the template declares: texts as they are, all else as JSON.
///
/// # Errors
/// That the text is no such value.
pub fn typed(template: &Value, name: &str, text: &str) -> Result<Value, Error> {
    let declared = member(template.get("parameters"), name);
    let members = template.as_object();
    match declared.zip(members).map(|(of, members)| type_of(members, of)).as_deref() {
        Some("string" | "securestring") | None => Ok(text.into()),
        Some(kind) => serde_json::from_str(text).map_err(|_| {
            Error::new(format!("parameters.{name}"), format!("'{text}' is no {kind} in JSON"))
        }),
    }
}

/// In lower case; of a type of the template's own, that which it stands for.
pub(crate) fn type_of(template: &Map<String, Value>, declared: &Value) -> String {
    resolved(template, declared)
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_lowercase()
}

/// What `$ref` leads to. A definition may lead to another, and round in a circle to none.
fn resolved<'v>(template: &'v Map<String, Value>, declared: &'v Value) -> &'v Value {
    const STEPS_MAX: usize = 16;
    let mut at = declared;
    for _ in 0..STEPS_MAX {
        let Some(path) = at.get("$ref").and_then(Value::as_str) else { return at };
        let name = path.trim_start_matches("#/definitions/");
        let Some(next) = template.get("definitions").and_then(|of| of.get(name)) else { return at };
        at = next;
    }
    at
}

/// A template with its parameters, or everything that is wrong with them.
pub(crate) fn scope<'t>(
    template: &'t Value,
    given: &BTreeMap<String, Value>,
    deployment: &str,
    run: Run<'t>,
) -> Result<Scope<'t>, Vec<Error>> {
    let Some(members) = template.as_object() else {
        return Err(vec![Error::here("a template is an object")]);
    };
    let none = Map::new();
    let declared = members.get("parameters").and_then(Value::as_object).unwrap_or(&none);
    let mut errors = Vec::new();
    let mut values = BTreeMap::new();
    for (name, value) in given {
        let found = declared.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((known, of)) = found else {
            let known: Vec<&str> = declared.keys().map(String::as_str).collect();
            let why =
                format!("the template has no parameter '{name}'; it has {}", known.join(", "));
            errors.push(Error::here(why));
            continue;
        };
        // Null is what is not given.
        if value.is_null() && of.get("defaultValue").is_some() {
            continue;
        }
        errors.extend(refused(members, known, of, value));
        values.insert(name.to_lowercase(), value.clone());
    }
    let is_missing = |(name, of): &(&String, &Value)| {
        of.get("defaultValue").is_none()
            && !is_nullable(members, of)
            && !values.contains_key(&name.to_lowercase())
    };
    let missing: Vec<&str> =
        declared.iter().filter(is_missing).map(|(name, _)| name.as_str()).collect();
    if !missing.is_empty() {
        let why =
            format!("parameters without a value: {}; give each of them one", missing.join(", "));
        errors.push(Error::new("parameters", why));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let scope = Scope::new(members, values, deployment.to_owned(), run);
    // A default is held to what is allowed as well, once it is known.
    for (name, of) in
        declared.iter().filter(|(name, _)| !scope.given.contains_key(&name.to_lowercase()))
    {
        if of.get("defaultValue").is_none() {
            continue;
        }
        match scope.parameter(name) {
            Ok(value) => errors.extend(refused(members, name, of, &value)),
            Err(error) if error.waits || !scope.run.context.is_deployed() => (),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(scope) } else { Err(errors) }
}

/// The values as they count, `{ type, value }`; secrets without theirs.
pub(crate) fn shown(scope: &Scope<'_>) -> Map<String, Value> {
    let template = scope.template;
    let declared = template.get("parameters").and_then(Value::as_object);
    let shown = |(name, of): (&String, &Value)| {
        let kind = type_of(template, of);
        let mut members = Map::new();
        members.insert("type".to_owned(), type_name(&kind).into());
        if !kind.starts_with("secure")
            && let Ok(value) = scope.parameter(name)
            && placeholder::unknown(&value).is_none()
        {
            members.insert("value".to_owned(), value);
        }
        (name.clone(), Value::Object(members))
    };
    declared.into_iter().flatten().map(shown).collect()
}

/// As Resource Manager writes a type.
pub(crate) fn type_name(lower: &str) -> &'static str {
    match lower {
        "string" => "String",
        "securestring" => "SecureString",
        "int" => "Int",
        "bool" => "Bool",
        "array" => "Array",
        "secureobject" => "SecureObject",
        _ => "Object",
    }
}

/// All that is wrong with a value, of a type of the template's own all that is in it.
pub(crate) fn refused(
    template: &Map<String, Value>,
    name: &str,
    declared: &Value,
    value: &Value,
) -> Vec<Error> {
    let mut errors = Vec::new();
    check(template, &format!("parameters.{name}"), declared, value, 0, &mut errors);
    errors
}

fn check(
    template: &Map<String, Value>,
    at: &str,
    declared: &Value,
    value: &Value,
    depth: usize,
    errors: &mut Vec<Error>,
) {
    const DEPTH_MAX: usize = 32;
    if placeholder::unknown(value).is_some() || value.is_null() || depth > DEPTH_MAX {
        return;
    }
    let declared = resolved(template, declared);
    if let Some(error) = refused_itself(template, at, declared, value) {
        return errors.push(error);
    }
    let below = |at: String, declared: &Value, value: &Value, errors: &mut Vec<Error>| {
        check(template, &at, declared, value, depth + 1, errors);
    };
    match value {
        Value::Array(values) => {
            let first = declared.get("prefixItems").and_then(Value::as_array);
            for (index, value) in values.iter().enumerate() {
                let of = first.and_then(|of| of.get(index));
                let of = of.or_else(|| declared.get("items").filter(|of| of.is_object()));
                if let Some(of) = of {
                    below(format!("{at}[{index}]"), of, value, errors);
                }
            }
        }
        Value::Object(members) => {
            let Some(known) = declared.get("properties").and_then(Value::as_object) else { return };
            for (name, of) in known {
                match member(Some(value), name) {
                    Some(value) => below(format!("{at}.{name}"), of, value, errors),
                    None if is_nullable(template, of) => (),
                    None => errors.push(Error::new(at, format!("it lacks '{name}'"))),
                }
            }
            let others = declared.get("additionalProperties");
            for (name, value) in members {
                if known.keys().any(|known| known.eq_ignore_ascii_case(name)) {
                    continue;
                }
                match others {
                    Some(Value::Bool(false)) => {
                        let why = format!("its type has no '{name}'");
                        errors.push(Error::new(at, why));
                    }
                    Some(of @ Value::Object(_)) => below(format!("{at}.{name}"), of, value, errors),
                    _ => (),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// Whether it may be left out.
fn is_nullable(template: &Map<String, Value>, declared: &Value) -> bool {
    let says = |of: &Value| of.get("nullable").and_then(Value::as_bool) == Some(true);
    says(declared) || says(resolved(template, declared))
}

/// What is wrong with a value, but for what is in it.
fn refused_itself(
    template: &Map<String, Value>,
    at: &str,
    declared: &Value,
    value: &Value,
) -> Option<Error> {
    let wrong = |why: String| Some(Error::new(at, why));
    let expected = type_of(template, declared);
    let is_typed = match expected.as_str() {
        "string" | "securestring" => value.is_string(),
        "int" => value.is_i64() || value.is_u64(),
        "bool" => value.is_boolean(),
        "array" => value.is_array(),
        "object" | "secureobject" => value.is_object(),
        _ => true,
    };
    if !is_typed {
        return wrong(format!("it is of type {expected}, and {} is given", kind(value)));
    }
    if let Some(Value::Array(allowed)) = declared.get("allowedValues")
        && !is_allowed(allowed, value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return wrong(format!("{value} is not allowed; allowed are {}", allowed.join(", ")));
    }
    let (measure, size) = match value {
        Value::String(text) => ("Length", text.chars().count() as i64),
        Value::Array(values) => ("Length", values.len() as i64),
        Value::Number(number) => ("Value", number.as_i64().unwrap_or_default()),
        Value::Null | Value::Bool(_) | Value::Object(_) => return None,
    };
    let limit = |bound: &str| declared.get(format!("{bound}{measure}")).and_then(Value::as_i64);
    let (min, max) = (limit("min"), limit("max"));
    match min.is_none_or(|min| size >= min) && max.is_none_or(|max| size <= max) {
        true => None,
        false => {
            let shown =
                |limit: Option<i64>| limit.map_or("…".to_owned(), |limit| limit.to_string());
            let measure = measure.to_lowercase();
            wrong(format!("its {measure} is {size}, allowed is {} to {}", shown(min), shown(max)))
        }
    }
}

/// Of a list, each of its items.
fn is_allowed(allowed: &[Value], value: &Value) -> bool {
    match value {
        Value::Array(values) => {
            allowed.contains(value) || values.iter().all(|value| allowed.contains(value))
        }
        value => allowed.contains(value),
    }
}
