//! What a template tells when it is deployed.

use serde_json::{Map, Value, json};

use crate::scope::Frame;
use crate::{Error, function, parameters, placeholder};

/// Each output as `{ type, value }`. One that waits for what is not known yet is a [placeholder].
pub(crate) fn outputs(template: &Value, frame: &Frame<'_>) -> (Map<String, Value>, Vec<Error>) {
    let (mut found, mut errors) = (Map::new(), Vec::new());
    let declared = template.get("outputs").and_then(Value::as_object);
    for (name, of) in declared.into_iter().flatten() {
        let kind = parameters::type_name(&parameters::type_of(frame.scope.template, of));
        let value = match output(of, frame) {
            Ok(Some(value)) => value,
            Ok(None) => continue,
            Err(error) if error.waits => placeholder::text(&format!("output '{name}'")),
            Err(error) => {
                errors.push(error.below(&format!("outputs.{name}")));
                continue;
            }
        };
        found.insert(name.clone(), json!({"type": kind, "value": value}));
    }
    (found, errors)
}

/// None: its condition does not hold.
fn output(of: &Value, frame: &Frame<'_>) -> Result<Option<Value>, Error> {
    if let Some(condition) = of.get("condition") {
        let truth = frame
            .evaluate(condition)
            .and_then(|value| function::truth(&value).map_err(Error::here));
        if !truth.map_err(|error| error.below("condition"))? {
            return Ok(None);
        }
    }
    if let Some(copy) = of.get("copy").filter(|copy| !copy.is_null()) {
        return frame.loop_over(copy).map(Some).map_err(|error| error.below("copy"));
    }
    let value = of.get("value").unwrap_or(&Value::Null);
    frame.evaluate(value).map(Some).map_err(|error| error.below("value"))
}
