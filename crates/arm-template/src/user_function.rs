//! Functions that a template defines itself: `{ "namespace": …, "members": { name: { parameters, output } } }`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::scope::{Frame, member};
use crate::{Error, parameters};

/// What a call of `namespace.name` comes to; none where the template has no such function.
pub(crate) fn call(
    frame: &Frame<'_>,
    name: &str,
    arguments: &[Value],
) -> Option<Result<Value, Error>> {
    let (namespace, name) = name.split_once('.')?;
    let template = frame.scope.template;
    let is_it = |one: &&Value| {
        let named = one.get("namespace").and_then(Value::as_str);
        named.is_some_and(|named| named.eq_ignore_ascii_case(namespace))
    };
    let namespaces = template.get("functions").and_then(Value::as_array)?;
    let found = namespaces.iter().filter(is_it).find_map(|one| member(one.get("members"), name))?;
    Some(run(frame, found, arguments))
}

fn run(frame: &Frame<'_>, function: &Value, arguments: &[Value]) -> Result<Value, Error> {
    let declared = function.get("parameters").and_then(Value::as_array);
    let declared: &[Value] = declared.map_or(&[], Vec::as_slice);
    if declared.len() != arguments.len() {
        let (wanted, found) = (declared.len(), arguments.len());
        return Err(Error::here(format!("it takes {wanted} arguments, and {found} are given")));
    }
    let mut given = BTreeMap::new();
    for (of, value) in declared.iter().zip(arguments) {
        let name = of.get("name").and_then(Value::as_str).unwrap_or_default();
        let refused = parameters::refused(frame.scope.template, name, of, value);
        if let Some(error) = refused.into_iter().next() {
            return Err(error);
        }
        given.insert(name.to_lowercase(), value.clone());
    }
    let scope = frame.scope.of_function(given);
    let body = function.pointer("/output/value").unwrap_or(&Value::Null);
    scope.frame().evaluate(body)
}
