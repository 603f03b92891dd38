//! Of lists and objects, and of both or texts.

use serde_json::{Map, Value};

use super::{argument, count, integer, kind, known, string, text};
use crate::placeholder;
use crate::text_format::shown;

pub(super) fn call(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    Some(match name {
        "array" => argument(arguments, 0).map(|value| match value {
            Value::Array(_) => value.clone(),
            other => Value::Array(vec![other.clone()]),
        }),
        "createarray" => Ok(Value::Array(arguments.to_vec())),
        "createobject" => create_object(arguments),
        "concat" => concat(arguments),
        "coalesce" => {
            let first = arguments.iter().find(|value| !value.is_null());
            Ok(first.cloned().unwrap_or_default())
        }
        "contains" => contains(arguments),
        "empty" => known(arguments, 0).and_then(empty),
        "length" => length(arguments),
        "first" => end(arguments, |values| values.first(), |text| text.chars().next()),
        "last" => end(arguments, |values| values.last(), |text| text.chars().last()),
        "take" => cut(arguments, true),
        "skip" => cut(arguments, false),
        "range" => range(arguments),
        "union" => union(arguments),
        "intersection" => intersection(arguments),
        "flatten" => flatten(arguments),
        "items" => items(arguments),
        "objectkeys" => object(arguments, 0)
            .map(|members| members.keys().map(|name| Value::from(name.as_str())).collect()),
        "indexof" | "lastindexof" => index_of(arguments, name == "indexof"),
        "tryget" => Ok(try_get(arguments)),
        "tryindexfromend" => from_end(arguments),
        _ => return None,
    })
}

fn object(arguments: &[Value], index: usize) -> Result<&Map<String, Value>, String> {
    let value = argument(arguments, index)?;
    value
        .as_object()
        .ok_or_else(|| format!("argument {} is {}, and no object", index + 1, kind(value)))
}

fn list(arguments: &[Value], index: usize) -> Result<&Vec<Value>, String> {
    let value = argument(arguments, index)?;
    value
        .as_array()
        .ok_or_else(|| format!("argument {} is {}, and no list", index + 1, kind(value)))
}

fn create_object(arguments: &[Value]) -> Result<Value, String> {
    if !arguments.len().is_multiple_of(2) {
        return Err("it takes names and values in turn".to_owned());
    }
    let mut members = Map::new();
    for index in (0..arguments.len()).step_by(2) {
        members.insert(string(arguments, index)?.to_owned(), arguments[index + 1].clone());
    }
    Ok(Value::Object(members))
}

fn concat(arguments: &[Value]) -> Result<Value, String> {
    if !arguments.is_empty() && arguments.iter().all(Value::is_array) {
        let all = arguments.iter().filter_map(Value::as_array).flatten();
        return Ok(all.cloned().collect());
    }
    let text = |value: &Value| match value {
        Value::Array(_) | Value::Object(_) => Err(format!("{} is no part of a text", kind(value))),
        other => Ok(shown(other)),
    };
    Ok(arguments.iter().map(text).collect::<Result<String, String>>()?.into())
}

fn contains(arguments: &[Value]) -> Result<Value, String> {
    let (of, what) = (known(arguments, 0)?, known(arguments, 1)?);
    Ok(match of {
        Value::String(text) => text.contains(&shown(what)).into(),
        Value::Array(values) => values.contains(what).into(),
        Value::Object(members) => {
            let name = shown(what);
            members.keys().any(|member| member.eq_ignore_ascii_case(&name)).into()
        }
        other => return Err(format!("{} contains nothing", kind(other))),
    })
}

fn empty(of: &Value) -> Result<Value, String> {
    Ok(match of {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(members) => members.is_empty(),
        other => return Err(format!("{} is neither empty nor not", kind(other))),
    }
    .into())
}

fn length(arguments: &[Value]) -> Result<Value, String> {
    Ok(match argument(arguments, 0)? {
        Value::Array(values) => values.len().into(),
        _ => match known(arguments, 0)? {
            Value::String(text) => text.chars().count().into(),
            Value::Object(members) => members.len().into(),
            other => return Err(format!("{} has no length", kind(other))),
        },
    })
}

fn end(
    arguments: &[Value],
    of_list: fn(&[Value]) -> Option<&Value>,
    of_text: fn(&str) -> Option<char>,
) -> Result<Value, String> {
    Ok(match argument(arguments, 0)? {
        Value::Array(values) => of_list(values).cloned().unwrap_or_default(),
        Value::String(text) if placeholder::unknown_text(text).is_some() => text.as_str().into(),
        Value::String(text) => of_text(text).map(String::from).unwrap_or_default().into(),
        other => return Err(format!("argument 1 is {}, and neither list nor text", kind(other))),
    })
}

fn cut(arguments: &[Value], takes: bool) -> Result<Value, String> {
    match argument(arguments, 0)? {
        Value::Array(values) => {
            let many = count(arguments, 1)?;
            let values = values.iter().cloned();
            Ok(if takes { values.take(many).collect() } else { values.skip(many).collect() })
        }
        Value::String(of) => text::cut(of, arguments, takes),
        other => Err(format!("argument 1 is {}, and neither list nor text", kind(other))),
    }
}

fn range(arguments: &[Value]) -> Result<Value, String> {
    /// As Azure has it.
    const COUNT_MAX: i64 = 10_000;
    let (from, many) = (integer(arguments, 0)?, integer(arguments, 1)?);
    match (0..=COUNT_MAX).contains(&many) && from.checked_add(many).is_some() {
        true => Ok((from..from + many).map(Value::from).collect()),
        false => Err(format!("{many} is no count from 0 to {COUNT_MAX}")),
    }
}

/// Of lists each value once; of objects the later member, objects in them alike.
fn union(arguments: &[Value]) -> Result<Value, String> {
    if arguments.iter().all(Value::is_array) {
        let mut all = Vec::new();
        for value in arguments.iter().filter_map(Value::as_array).flatten() {
            if !all.contains(value) {
                all.push(value.clone());
            }
        }
        return Ok(Value::Array(all));
    }
    let mut all = Map::new();
    for index in 0..arguments.len() {
        merge(&mut all, object(arguments, index)?);
    }
    Ok(Value::Object(all))
}

fn merge(into: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, value) in more {
        match (into.get_mut(name), value) {
            (Some(Value::Object(into)), Value::Object(more)) => merge(into, more),
            _ => drop(into.insert(name.clone(), value.clone())),
        }
    }
}

fn intersection(arguments: &[Value]) -> Result<Value, String> {
    if arguments.iter().all(Value::is_array) {
        let first = list(arguments, 0)?.iter();
        let is_in_all = |value: &&Value| {
            arguments[1..].iter().filter_map(Value::as_array).all(|other| other.contains(value))
        };
        return Ok(first.filter(is_in_all).cloned().collect());
    }
    let mut common = object(arguments, 0)?.clone();
    for index in 1..arguments.len() {
        let other = object(arguments, index)?;
        common.retain(|name, value| other.get(name) == Some(value));
    }
    Ok(Value::Object(common))
}

fn flatten(arguments: &[Value]) -> Result<Value, String> {
    let mut all = Vec::new();
    for value in list(arguments, 0)? {
        match value {
            Value::Array(values) => all.extend(values.iter().cloned()),
            other => all.push(other.clone()),
        }
    }
    Ok(Value::Array(all))
}

fn items(arguments: &[Value]) -> Result<Value, String> {
    let items = object(arguments, 0)?.iter().map(|(name, value)| {
        let members = [("key", Value::from(name.as_str())), ("value", value.clone())];
        Value::Object(members.into_iter().map(|(name, of)| (name.to_owned(), of)).collect())
    });
    Ok(items.collect())
}

fn index_of(arguments: &[Value], is_first: bool) -> Result<Value, String> {
    let (values, what) = (list(arguments, 0)?, known(arguments, 1)?);
    let is_it = |value: &Value| value == what;
    let at = if is_first { values.iter().position(is_it) } else { values.iter().rposition(is_it) };
    Ok(at.map_or(Value::from(-1), Value::from))
}

/// Null where one of the steps leads nowhere.
fn try_get(arguments: &[Value]) -> Value {
    let mut of = arguments.first().cloned().unwrap_or_default();
    for step in arguments.iter().skip(1) {
        of = index(&of, step).unwrap_or_default();
    }
    of
}

fn from_end(arguments: &[Value]) -> Result<Value, String> {
    let (values, back) = (list(arguments, 0)?, count(arguments, 1)?);
    let at = values.len().checked_sub(back).filter(|_| back > 0);
    Ok(at.and_then(|at| values.get(at)).cloned().unwrap_or_default())
}

/// `of[step]`: an object's member, whatever its case, or a list's item.
pub(crate) fn index(of: &Value, step: &Value) -> Result<Value, String> {
    match (of, step) {
        (Value::Object(members), Value::String(name)) => {
            let found = members.get(name).or_else(|| {
                members.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, of)| of)
            });
            let found = found.cloned().or_else(|| placeholder::member(of, name));
            found.ok_or_else(|| format!("there is no member '{name}'"))
        }
        (Value::Array(values), step) if step.is_number() => {
            let at = step.as_u64().and_then(|at| usize::try_from(at).ok());
            let found = at.and_then(|at| values.get(at));
            found
                .cloned()
                .ok_or_else(|| format!("there is no item {step} in a list of {}", values.len()))
        }
        (of, step) => {
            let name = shown(step);
            let member = placeholder::member(of, &name);
            member.ok_or_else(|| format!("{} has no member or item '{name}'", kind(of)))
        }
    }
}
