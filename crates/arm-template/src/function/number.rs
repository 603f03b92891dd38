//! Of numbers and truths.

use serde_json::Value;

use super::{argument, integer, kind, known, string, truth};

pub(super) fn call(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    Some(match name {
        "true" => Ok(Value::Bool(true)),
        "false" => Ok(Value::Bool(false)),
        "null" => Ok(Value::Null),
        "bool" => argument(arguments, 0).and_then(truth).map(Value::Bool),
        "int" => integer(arguments, 0).map(Value::from),
        "not" => argument(arguments, 0).and_then(truth).map(|truth| Value::Bool(!truth)),
        "equals" => pair(arguments).map(|(a, b)| Value::Bool(a == b)),
        "less" => ordered(arguments, |order| order.is_lt()),
        "lessorequals" => ordered(arguments, |order| order.is_le()),
        "greater" => ordered(arguments, |order| order.is_gt()),
        "greaterorequals" => ordered(arguments, |order| order.is_ge()),
        "add" => reckon(arguments, i64::checked_add),
        "sub" => reckon(arguments, i64::checked_sub),
        "mul" => reckon(arguments, i64::checked_mul),
        "div" => reckon(arguments, i64::checked_div),
        "mod" => reckon(arguments, i64::checked_rem),
        "min" => integers(arguments).and_then(|of| most(of.into_iter().min())),
        "max" => integers(arguments).and_then(|of| most(of.into_iter().max())),
        _ => return None,
    })
}

fn pair(arguments: &[Value]) -> Result<(&Value, &Value), String> {
    Ok((known(arguments, 0)?, known(arguments, 1)?))
}

fn ordered(arguments: &[Value], holds: fn(std::cmp::Ordering) -> bool) -> Result<Value, String> {
    let order = match pair(arguments)? {
        (Value::String(_), _) => string(arguments, 0)?.cmp(string(arguments, 1)?),
        (Value::Number(_), _) => integer(arguments, 0)?.cmp(&integer(arguments, 1)?),
        (other, _) => return Err(format!("{} is neither less nor more", kind(other))),
    };
    Ok(Value::Bool(holds(order)))
}

fn reckon(arguments: &[Value], of: fn(i64, i64) -> Option<i64>) -> Result<Value, String> {
    let result = of(integer(arguments, 0)?, integer(arguments, 1)?);
    result.map(Value::from).ok_or_else(|| "the result is no number of 64 bits".to_owned())
}

/// Those of a list, or of all arguments.
fn integers(arguments: &[Value]) -> Result<Vec<i64>, String> {
    let values = match arguments {
        [Value::Array(values)] => values,
        values => values,
    };
    (0..values.len()).map(|index| integer(values, index)).collect()
}

fn most(of: Option<i64>) -> Result<Value, String> {
    of.map(Value::from).ok_or_else(|| "it takes a number or more".to_owned())
}
