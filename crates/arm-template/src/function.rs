//! Functions whose value is made of their arguments alone. Their names are compared without case.

mod azure;
mod list;
mod number;
mod text;

use serde_json::Value;

use crate::context::Context;
use crate::placeholder;

/// What a call comes to; none where no such function is known here.
pub(crate) fn call(
    context: &Context,
    name: &str,
    arguments: &[Value],
) -> Option<Result<Value, String>> {
    let name = name.to_ascii_lowercase();
    [text::call, list::call, number::call]
        .into_iter()
        .find_map(|of_a_kind| of_a_kind(&name, arguments))
        .or_else(|| azure::call(context, &name, arguments))
}

/// The argument at a place.
fn argument(arguments: &[Value], index: usize) -> Result<&Value, String> {
    arguments.get(index).ok_or_else(|| format!("it takes {} arguments or more", index + 1))
}

/// One whose value is looked at: it must be known.
fn known(arguments: &[Value], index: usize) -> Result<&Value, String> {
    let value = argument(arguments, index)?;
    match placeholder::unknown(value) {
        Some(what) => Err(not_known(what)),
        None => Ok(value),
    }
}

pub(crate) use list::index;

pub(crate) fn not_known(what: &str) -> String {
    placeholder::marked(&format!(
        "it depends on {what}, which Azure alone knows; give it as a parameter"
    ))
}

fn string(arguments: &[Value], index: usize) -> Result<&str, String> {
    let value = argument(arguments, index)?;
    value.as_str().ok_or_else(|| format!("argument {} is {}, and no text", index + 1, kind(value)))
}

fn integer(arguments: &[Value], index: usize) -> Result<i64, String> {
    let value = known(arguments, index)?;
    let read = value.as_i64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
    read.ok_or_else(|| format!("argument {} is {}, and no whole number", index + 1, kind(value)))
}

/// A number of items or characters: less than none is none.
fn count(arguments: &[Value], index: usize) -> Result<usize, String> {
    integer(arguments, index).map(|number| usize::try_from(number.max(0)).unwrap_or(usize::MAX))
}

/// As people call a value's type.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A truth, also as a text: old templates write them so.
pub(crate) fn truth(value: &Value) -> Result<bool, String> {
    if let Some(what) = placeholder::unknown(value) {
        return Err(not_known(what));
    }
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Value::Number(number) if number.as_i64().is_some_and(|n| n == 0 || n == 1) => {
            Ok(number.as_i64() == Some(1))
        }
        other => Err(format!("{other} is neither true nor false")),
    }
}
