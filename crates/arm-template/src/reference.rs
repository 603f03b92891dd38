//! What a template asks of resources: its own, by name, id or symbolic name, and those that are there.

use serde_json::{Map, Value, json};

use crate::context::{Question, id_end};
use crate::outputs::outputs;
use crate::scope::Frame;
use crate::{Error, module, placeholder};

/// A resource of the template, in its turn.
struct Own<'s> {
    resource: &'s Value,
    frame: Frame<'s>,
    kind: &'s str,
    name: String,
}

/// `reference(…)`: what was answered; until then, of a resource of the template what that says of it.
pub(crate) fn resource(frame: &Frame<'_>, of: &Value, is_full: bool) -> Result<Value, Error> {
    let shown = of.as_str().and_then(|of| of.rsplit('/').next()).unwrap_or("…");
    let what = format!("reference('{shown}')");
    let own = find(frame, of);
    if let Some(answer) =
        id(frame, of, own.as_ref()).and_then(|id| frame.scope.run.answer(Question::Resource { id }))
    {
        return Ok(match is_full {
            true => answer.clone(),
            false => answer.get("properties").cloned().unwrap_or_default(),
        });
    }
    let mut members = Map::new();
    let parts: &[&str] =
        if is_full { &["sku", "properties", "name", "location"] } else { &["properties"] };
    for part in parts {
        let Some(own) = &own else { break };
        let value = match *part {
            "properties" if module::is_module(own.kind) => {
                let key = format!("what '{}' tells", own.name.to_lowercase());
                let told = frame.scope.once(key, || Ok(module_outputs(own)))?;
                Some(json!({"outputs": told}))
            }
            // What cannot be evaluated here is not known: whoever needs it is told.
            part => own.resource.get(part).and_then(|value| own.frame.evaluate(value).ok()),
        };
        match (is_full, value) {
            (false, Some(Value::Object(properties))) => members.extend(properties),
            (_, Some(value)) => drop(members.insert((*part).to_owned(), value)),
            (_, None) => (),
        }
    }
    Ok(placeholder::object(&what, members))
}

/// `listKeys(…)` and its like.
pub(crate) fn list(frame: &Frame<'_>, name: &str, of: &Value) -> Result<Value, Error> {
    let function = name.to_ascii_lowercase();
    let own = find(frame, of);
    if let Some(id) = id(frame, of, own.as_ref())
        && let Some(answer) =
            frame.scope.run.answer(Question::List { function: function.clone(), id })
    {
        return Ok(answer.clone());
    }
    Ok(placeholder::object(&format!("{function}(…)"), Map::new()))
}

/// `deployment()`: that of the template around.
pub(crate) fn deployment(frame: &Frame<'_>) -> Value {
    let (name, context) = (&frame.scope.deployment, frame.scope.run.context);
    if name.is_empty() {
        return placeholder::object("deployment()", Map::new());
    }
    json!({
        "id": context.resource_id(module::KIND, name),
        "name": name,
        "properties": {"mode": "Incremental", "provisioningState": "Running"},
    })
}

/// In lower case; none where it is not known.
fn id(frame: &Frame<'_>, of: &Value, own: Option<&Own<'_>>) -> Option<String> {
    let named = of.as_str().filter(|text| placeholder::unknown_text(text).is_none())?;
    if own.is_some() {
        frame.scope.run.referred.borrow_mut().push(named.to_owned());
    }
    let id = match own {
        _ if named.to_ascii_lowercase().contains("/providers/") => named.to_owned(),
        Some(own) => frame.scope.run.context.resource_id(own.kind, &own.name),
        None => return None,
    };
    Some(id.to_ascii_lowercase())
}

/// By its symbolic name, perhaps with the turn of its loop, by its name, or by its id.
fn find<'s>(frame: &Frame<'s>, of: &Value) -> Option<Own<'s>> {
    let named = of.as_str()?;
    match frame.scope.template.get("resources")? {
        Value::Object(resources) => {
            let (symbol, turn) = match named.strip_suffix(']').and_then(|of| of.split_once('[')) {
                Some((symbol, turn)) => (symbol, turn.parse::<usize>().ok()),
                None => (named, None),
            };
            let by_symbol = resources.get(symbol).and_then(|of| in_turn(frame, of, turn));
            let others = || resources.values().find_map(|one| by_name(frame, one, named));
            by_symbol.or_else(others)
        }
        Value::Array(resources) => resources.iter().find_map(|one| by_name(frame, one, named)),
        _ => None,
    }
}

fn by_name<'s>(frame: &Frame<'s>, resource: &'s Value, named: &str) -> Option<Own<'s>> {
    let turns = match resource.get("copy").filter(|copy| !copy.is_null()) {
        None => vec![None],
        Some(copy) => (0..frame.turns_of(copy).ok()?).map(Some).collect(),
    };
    turns.into_iter().filter_map(|turn| in_turn(frame, resource, turn)).find(|own| {
        let end = id_end(own.kind, &own.name);
        named.to_lowercase().ends_with(&end.to_lowercase()) || named.eq_ignore_ascii_case(&own.name)
    })
}

fn in_turn<'s>(frame: &Frame<'s>, resource: &'s Value, turn: Option<usize>) -> Option<Own<'s>> {
    let text = |member: &str| resource.get(member).and_then(Value::as_str);
    // Loops of its own are another resource's.
    let mut frame = frame.scope.frame();
    let copy = resource.get("copy").filter(|copy| !copy.is_null());
    match (copy, turn) {
        (None, None) => (),
        (Some(copy), Some(index)) => {
            let name = copy.get("name").and_then(Value::as_str).unwrap_or_default();
            frame = frame.turned(name, index);
        }
        _ => return None,
    }
    match frame.string(text("name")?) {
        Ok(Value::String(name)) => Some(Own { resource, frame, kind: text("type")?, name }),
        _ => None,
    }
}

/// What a module will tell, as far as that is known before it has run.
fn module_outputs(own: &Own<'_>) -> Value {
    let Some(template) = own.resource.pointer("/properties/template") else { return json!({}) };
    let run = &own.frame.scope.run;
    let found = match module::is_inner(own.resource) {
        false => outputs(template, &own.frame).0,
        true => {
            let (given, _) = module::given(own.resource, &own.frame);
            match module::scope(template, &given, &own.name, run) {
                Ok(scope) => outputs(template, &scope.frame()).0,
                Err(_) => Map::new(),
            }
        }
    };
    Value::Object(found)
}
