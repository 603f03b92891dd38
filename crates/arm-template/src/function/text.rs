//! Of texts.

use serde_json::Value;

use super::{argument, count, integer, known, string};
use crate::placeholder;
use crate::text_format::{format, shown};

pub(super) fn call(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    // Of a text that is not known, no part is.
    if CUTS.contains(&name)
        && let Some(Value::String(text)) = arguments.first()
        && placeholder::unknown_text(text).is_some()
    {
        let whole = Value::String(text.clone());
        return Some(Ok(if name == "split" { Value::Array(vec![whole]) } else { whole }));
    }
    let text = |index| string(arguments, index);
    Some(match name {
        "format" => text(0).and_then(|text| format(text, &arguments[1..])).map(Value::String),
        "tolower" => text(0).map(|text| text.to_lowercase().into()),
        "toupper" => text(0).map(|text| text.to_uppercase().into()),
        "trim" => text(0).map(|text| text.trim().into()),
        "string" => argument(arguments, 0).map(|value| shown(value).into()),
        "replace" => replace(arguments),
        "substring" => substring(arguments),
        "split" => split(arguments),
        "padleft" => pad_left(arguments),
        "startswith" => lower_pair(arguments).map(|(text, part)| text.starts_with(&part).into()),
        "endswith" => lower_pair(arguments).map(|(text, part)| text.ends_with(&part).into()),
        "indexof" if arguments.first().is_some_and(Value::is_string) => {
            lower_pair(arguments).map(|(text, part)| chars_before(&text, text.find(&part)))
        }
        "lastindexof" if arguments.first().is_some_and(Value::is_string) => {
            lower_pair(arguments).map(|(text, part)| chars_before(&text, text.rfind(&part)))
        }
        "join" => join(arguments),
        "json" => text(0).and_then(|text| {
            serde_json::from_str(text).map_err(|error| format!("the text is no JSON: {error}"))
        }),
        "fail" => Err(format!("the template fails here: {}", shown(arguments.first()?))),
        _ => return None,
    })
}

/// What makes a part of a text, or another of it.
const CUTS: [&str; 9] =
    ["tolower", "toupper", "trim", "replace", "substring", "split", "padleft", "take", "skip"];

fn replace(arguments: &[Value]) -> Result<Value, String> {
    let (text, from, to) = (string(arguments, 0)?, string(arguments, 1)?, string(arguments, 2)?);
    match from.is_empty() {
        true => Err("there is nothing to replace: the second argument is empty".to_owned()),
        false => Ok(text.replace(from, to).into()),
    }
}

fn substring(arguments: &[Value]) -> Result<Value, String> {
    let (text, start) = (string(arguments, 0)?, count(arguments, 1)?);
    let length = if arguments.len() > 2 { count(arguments, 2)? } else { usize::MAX };
    let chars = text.chars().count();
    if start > chars || (length != usize::MAX && length > chars - start) {
        return Err(format!("'{text}' has {chars} characters, and ends before"));
    }
    Ok(text.chars().skip(start).take(length).collect::<String>().into())
}

fn split(arguments: &[Value]) -> Result<Value, String> {
    let text = string(arguments, 0)?;
    let separators: Vec<&str> = match known(arguments, 1)? {
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec![string(arguments, 1)?],
    };
    let (mut parts, mut rest) = (Vec::new(), text);
    let found = |rest: &str| {
        let places = separators.iter().filter(|one| !one.is_empty());
        places.filter_map(|one| rest.find(one).map(|at| (at, one.len()))).min()
    };
    while let Some((at, length)) = found(rest) {
        parts.push(Value::from(&rest[..at]));
        rest = &rest[at + length..];
    }
    parts.push(rest.into());
    Ok(Value::Array(parts))
}

fn pad_left(arguments: &[Value]) -> Result<Value, String> {
    const LENGTH_MAX: usize = 1000;
    let text = shown(argument(arguments, 0)?);
    let length = count(arguments, 1)?;
    let with = if arguments.len() > 2 { string(arguments, 2)? } else { " " };
    if length > LENGTH_MAX {
        return Err(format!("texts are padded to {LENGTH_MAX} characters at most"));
    }
    let missing = length.saturating_sub(text.chars().count());
    Ok((with.chars().take(1).collect::<String>().repeat(missing) + &text).into())
}

/// Compared without case.
fn lower_pair(arguments: &[Value]) -> Result<(String, String), String> {
    known(arguments, 0)?;
    known(arguments, 1)?;
    Ok((string(arguments, 0)?.to_lowercase(), string(arguments, 1)?.to_lowercase()))
}

fn chars_before(text: &str, at: Option<usize>) -> Value {
    at.map_or(Value::from(-1), |at| text[..at].chars().count().into())
}

fn join(arguments: &[Value]) -> Result<Value, String> {
    let values = argument(arguments, 0)?;
    let values = values.as_array().ok_or("the first argument is no list")?;
    let with = string(arguments, 1)?;
    Ok(values.iter().map(shown).collect::<Vec<_>>().join(with).into())
}

/// The first or last so many characters.
pub(super) fn cut(text: &str, arguments: &[Value], takes: bool) -> Result<Value, String> {
    integer(arguments, 1)?;
    let many = count(arguments, 1)?;
    let chars = text.chars();
    let cut: String = if takes { chars.take(many).collect() } else { chars.skip(many).collect() };
    Ok(cut.into())
}
