//! Functions that take functions: `map(list, lambda('x', …))` and its like.

use serde_json::Value;

use crate::expression::Expression;
use crate::scope::{Frame, in_call};
use crate::{Error, function};

/// `lambda('a', 'b', body)`.
struct Lambda<'e> {
    names: Vec<String>,
    body: &'e Expression,
}

/// What a call comes to; none where it is none of these.
pub(crate) fn call(
    frame: &Frame<'_>,
    name: &str,
    arguments: &[Expression],
) -> Option<Result<Value, Error>> {
    Some(match name {
        "lambdavariables" => variable(frame, arguments),
        "map" => each(frame, name, arguments, |value, result| Ok(vec![(value, result)]))
            .map(|of| of.into_iter().map(|(_, result)| result).collect()),
        "filter" => each(frame, name, arguments, |value, result| {
            Ok(if function::truth(&result)? { vec![(value, result)] } else { Vec::new() })
        })
        .map(|of| of.into_iter().map(|(value, _)| value).collect()),
        "reduce" => reduce(frame, arguments),
        "toobject" => to_object(frame, arguments),
        "lambda" => Err(Error::here("a lambda stands in map, filter, reduce or toObject only")),
        _ => return None,
    })
}

fn variable(frame: &Frame<'_>, arguments: &[Expression]) -> Result<Value, Error> {
    let Some(Expression::Text(name)) = arguments.first() else {
        return Err(in_call("lambdaVariables", "it takes a name"));
    };
    let found = frame.locals.iter().rfind(|(known, _)| known.eq_ignore_ascii_case(name));
    found
        .map(|(_, value)| value.clone())
        .ok_or_else(|| Error::here(format!("no lambda has a '{name}'")))
}

fn lambda<'e>(name: &str, argument: Option<&'e Expression>) -> Result<Lambda<'e>, Error> {
    let wrong = || in_call(name, "it takes a lambda, like lambda('x', …)");
    let Some(Expression::Call { name: called, arguments }) = argument else { return Err(wrong()) };
    let Some((body, names)) = arguments.split_last() else { return Err(wrong()) };
    if !called.eq_ignore_ascii_case("lambda") {
        return Err(wrong());
    }
    let name = |of: &Expression| match of {
        Expression::Text(name) => Ok(name.clone()),
        _ => Err(wrong()),
    };
    Ok(Lambda { names: names.iter().map(name).collect::<Result<_, _>>()?, body })
}

impl Lambda<'_> {
    fn run(&self, frame: &Frame<'_>, values: &[Value]) -> Result<Value, Error> {
        let mut inner = frame.clone();
        inner.locals.extend(self.names.iter().cloned().zip(values.iter().cloned()));
        inner.expression(self.body)
    }
}

fn items(frame: &Frame<'_>, name: &str, of: Option<&Expression>) -> Result<Vec<Value>, Error> {
    let of = of.map(|of| frame.expression(of)).transpose()?;
    match of {
        Some(Value::Array(values)) => Ok(values),
        _ => Err(in_call(name, "it takes a list")),
    }
}

type Pairs = Vec<(Value, Value)>;

/// Each item with what the lambda makes of it, as far as it is kept.
fn each(
    frame: &Frame<'_>,
    name: &str,
    arguments: &[Expression],
    kept: impl Fn(Value, Value) -> Result<Pairs, String>,
) -> Result<Pairs, Error> {
    let lambda = lambda(name, arguments.get(1))?;
    let mut all = Vec::new();
    for (index, value) in items(frame, name, arguments.first())?.into_iter().enumerate() {
        let result = lambda.run(frame, &[value.clone(), index.into()])?;
        all.extend(kept(value, result).map_err(|why| in_call(name, &why))?);
    }
    Ok(all)
}

fn reduce(frame: &Frame<'_>, arguments: &[Expression]) -> Result<Value, Error> {
    let lambda = lambda("reduce", arguments.get(2))?;
    let mut value = match arguments.get(1) {
        Some(first) => frame.expression(first)?,
        None => Value::Null,
    };
    for (index, item) in items(frame, "reduce", arguments.first())?.into_iter().enumerate() {
        value = lambda.run(frame, &[value, item, index.into()])?;
    }
    Ok(value)
}

fn to_object(frame: &Frame<'_>, arguments: &[Expression]) -> Result<Value, Error> {
    let key = lambda("toObject", arguments.get(1))?;
    let value = arguments.get(2).map(|of| lambda("toObject", Some(of))).transpose()?;
    let mut members = serde_json::Map::new();
    for item in items(frame, "toObject", arguments.first())? {
        let Value::String(name) = key.run(frame, std::slice::from_ref(&item))? else {
            return Err(in_call("toObject", "a key is no text"));
        };
        let of = match &value {
            Some(value) => value.run(frame, &[item])?,
            None => item,
        };
        members.insert(name, of);
    }
    Ok(Value::Object(members))
}
