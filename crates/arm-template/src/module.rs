//! Modules: templates in templates, each a deployment of its own.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::scope::{Frame, Run, Scope};
use crate::{Error, parameters};

pub(crate) const KIND: &str = "Microsoft.Resources/deployments";

pub(crate) fn is_module(kind: &str) -> bool {
    kind.eq_ignore_ascii_case(KIND)
}

/// Whether its expressions are its own; else they are those of the template around it.
pub(crate) fn is_inner(module: &Value) -> bool {
    let scope = module.pointer("/properties/expressionEvaluationOptions/scope");
    scope.and_then(Value::as_str).is_some_and(|of| of.eq_ignore_ascii_case("inner"))
}

/// The values that it is given, and what is wrong with them, below its properties.
pub(crate) fn given(module: &Value, frame: &Frame<'_>) -> (BTreeMap<String, Value>, Vec<Error>) {
    let given = module.pointer("/properties/parameters").and_then(Value::as_object);
    let (mut values, mut errors) = (BTreeMap::new(), Vec::new());
    for (name, of) in given.into_iter().flatten() {
        // A secret of a key vault is no part of an entity.
        let Some(value) = of.get("value") else {
            values.insert(name.clone(), crate::placeholder::text("a key vault"));
            continue;
        };
        match frame.evaluate(value) {
            Ok(value) => drop(values.insert(name.clone(), value)),
            Err(error) if error.waits => {
                let what = format!("parameter '{name}'");
                values.insert(name.clone(), crate::placeholder::text(&what));
            }
            Err(error) => errors.push(error.below(&format!("parameters.{name}"))),
        }
    }
    (values, errors)
}

/// # Errors
/// As [`parameters::scope`].
pub(crate) fn scope<'t>(
    template: &'t Value,
    given: &BTreeMap<String, Value>,
    name: &str,
    run: &Run<'t>,
) -> Result<Scope<'t>, Vec<Error>> {
    parameters::scope(template, given, name, run.clone())
}
