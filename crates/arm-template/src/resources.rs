//! A template's resources: loops, conditions, children and modules come to a flat list.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::scope::{Budget, Frame};
use crate::{Error, function, parameters};

/// Modules in modules.
const DEPTH_MAX: usize = 16;
/// The type of a module.
const DEPLOYMENTS: &str = "microsoft.resources/deployments";

/// What a template comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Those that were asked for, in the order of the template.
    pub resources: Vec<Resource>,
    /// How many others there are of each type.
    pub skipped: BTreeMap<String, usize>,
    /// Names of outputs, which are not evaluated.
    pub outputs: Vec<String>,
}

/// A resource with plain values. One may hold a [placeholder](crate::placeholder).
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Where it stands: `resources[3]`, with the turn of its loop.
    pub at: String,
    /// With those of its parents: `Microsoft.ServiceBus/namespaces/queues`.
    pub kind: String,
    /// With those of its parents: as many segments as its type has behind the provider.
    pub name: String,
    /// It is only referred to.
    pub is_existing: bool,
    /// Null where there are none.
    pub properties: Value,
    pub sku: Value,
}

/// Evaluates a template. `is_wanted` is asked of each resource's type; others are counted.
///
/// # Errors
/// Everything that is wrong: with parameters, or with a resource that is asked for.
pub fn evaluate(
    template: &Value,
    given: &BTreeMap<String, Value>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Evaluation, Vec<Error>> {
    let scope = parameters::scope(template, given, Budget::new())?;
    let mut expansion =
        Expansion { is_wanted, evaluation: Evaluation::default(), errors: Vec::new() };
    expansion.all(template, &scope.frame(), None, "", 0);
    let outputs = template.get("outputs").and_then(Value::as_object);
    expansion.evaluation.outputs =
        outputs.into_iter().flat_map(|outputs| outputs.keys().cloned()).collect();
    match expansion.errors.is_empty() {
        true => Ok(expansion.evaluation),
        false => Err(expansion.errors),
    }
}

struct Expansion<'w> {
    is_wanted: &'w dyn Fn(&str) -> bool,
    evaluation: Evaluation,
    errors: Vec<Error>,
}

/// Type and name of the resource around one.
struct Parent {
    kind: String,
    name: String,
}

impl Expansion<'_> {
    /// `of`: what has `resources`; `at`: its path.
    fn all(
        &mut self,
        of: &Value,
        frame: &Frame<'_>,
        parent: Option<&Parent>,
        at: &str,
        depth: usize,
    ) {
        let path = if at.is_empty() { "resources".to_owned() } else { format!("{at}.resources") };
        match of.get("resources") {
            Some(Value::Array(resources)) => {
                for (index, resource) in resources.iter().enumerate() {
                    self.one(resource, frame, parent, &format!("{path}[{index}]"), depth);
                }
            }
            Some(Value::Object(resources)) => {
                for (name, resource) in resources {
                    self.one(resource, frame, parent, &format!("{path}.{name}"), depth);
                }
            }
            None | Some(Value::Null) => (),
            Some(_) => self.errors.push(Error::new(path, "it is neither a list nor an object")),
        }
    }

    fn one(
        &mut self,
        resource: &Value,
        frame: &Frame<'_>,
        parent: Option<&Parent>,
        at: &str,
        depth: usize,
    ) {
        let Some(kind) = resource.get("type").and_then(Value::as_str) else {
            return self.errors.push(Error::new(at, "it lacks a `type`"));
        };
        let kind = match parent {
            // The type of a child is short; one with its provider is whole.
            Some(parent) if !kind.contains('/') => format!("{}/{kind}", parent.kind),
            _ => kind.to_owned(),
        };
        let is_module = kind.eq_ignore_ascii_case(DEPLOYMENTS);
        if !is_module && !(self.is_wanted)(&kind) {
            *self.evaluation.skipped.entry(kind).or_default() += 1;
            return;
        }
        let Some(copy) = resource.get("copy").filter(|copy| !copy.is_null()) else {
            return self.turn(resource, &kind, frame, parent, at, depth);
        };
        let name = copy.get("name").and_then(Value::as_str).unwrap_or_default();
        match frame.turns_of(copy) {
            Ok(turns) => {
                for index in 0..turns {
                    let at = format!("{at} (turn {index})");
                    self.turn(resource, &kind, &frame.turned(name, index), parent, &at, depth);
                }
            }
            Err(error) => self.errors.push(error.below("copy").below(at)),
        }
    }

    fn turn(
        &mut self,
        resource: &Value,
        kind: &str,
        frame: &Frame<'_>,
        parent: Option<&Parent>,
        at: &str,
        depth: usize,
    ) {
        if depth > DEPTH_MAX {
            let why = format!("resources and modules are nested more than {DEPTH_MAX} deep");
            return self.errors.push(Error::new(at, why));
        }
        let is_there = condition(resource, frame);
        let result = is_there.and_then(|is_there| {
            if !is_there {
                return Ok(());
            }
            if kind.eq_ignore_ascii_case(DEPLOYMENTS) {
                self.module(resource, frame, at, depth);
                return Ok(());
            }
            let name = name(resource, kind, frame, parent)?;
            let is_existing = resource.get("existing").and_then(Value::as_bool) == Some(true);
            let member = |name: &str| match resource.get(name) {
                Some(value) if !is_existing => {
                    frame.evaluate(value).map_err(|error| error.below(name))
                }
                _ => Ok(Value::Null),
            };
            let (properties, sku) = (member("properties")?, member("sku")?);
            let parent = Parent { kind: kind.to_owned(), name: name.clone() };
            self.evaluation.resources.push(Resource {
                at: at.to_owned(),
                kind: kind.to_owned(),
                name,
                is_existing,
                properties,
                sku,
            });
            self.all(resource, frame, Some(&parent), at, depth + 1);
            Ok(())
        });
        self.errors.extend(result.err().map(|error| error.below(at)));
    }

    /// A template in a template.
    fn module(&mut self, resource: &Value, frame: &Frame<'_>, at: &str, depth: usize) {
        let at = format!("{at}.properties");
        let none = Value::Object(Map::new());
        let properties = resource.get("properties").unwrap_or(&none);
        let Some(template) = properties.get("template") else {
            let why = "what it links to cannot be followed; put the template in its place, as \
                       'bicep build' does";
            return self.errors.push(Error::new(at, why));
        };
        let at_template = format!("{at}.template");
        let scope = properties.get("expressionEvaluationOptions").and_then(|of| of.get("scope"));
        if !scope.and_then(Value::as_str).is_some_and(|of| of.eq_ignore_ascii_case("inner")) {
            // Its expressions are those of the template around it.
            return self.all(template, frame, None, &at_template, depth + 1);
        }
        let given = properties.get("parameters").and_then(Value::as_object);
        let mut values = BTreeMap::new();
        for (name, of) in given.into_iter().flatten() {
            // A secret of a key vault is no part of an entity.
            let Some(value) = of.get("value") else {
                values.insert(name.clone(), crate::placeholder::text("a key vault"));
                continue;
            };
            match frame.evaluate(value) {
                Ok(value) => drop(values.insert(name.clone(), value)),
                Err(error) => self.errors.push(error.below(&format!("{at}.parameters.{name}"))),
            }
        }
        match parameters::scope(template, &values, frame.scope.budget.clone()) {
            Ok(inner) => self.all(template, &inner.frame(), None, &at_template, depth + 1),
            Err(errors) => {
                self.errors.extend(errors.into_iter().map(|error| error.below(&at_template)));
            }
        }
    }
}

fn condition(resource: &Value, frame: &Frame<'_>) -> Result<bool, Error> {
    let Some(condition) = resource.get("condition") else { return Ok(true) };
    let below = |error: Error| error.below("condition");
    let value = frame.evaluate(condition).map_err(below)?;
    function::truth(&value).map_err(|why| below(Error::here(why)))
}

/// With the names of its parents.
fn name(
    resource: &Value,
    kind: &str,
    frame: &Frame<'_>,
    parent: Option<&Parent>,
) -> Result<String, Error> {
    let below = |error: Error| error.below("name");
    let own = resource.get("name").ok_or_else(|| below(Error::here("it is missing")))?;
    let own = match frame.evaluate(own).map_err(below)? {
        Value::String(name) => name,
        other => return Err(below(Error::here(format!("{other} is no text")))),
    };
    let name = match parent {
        Some(parent) if !own.contains('/') => format!("{}/{own}", parent.name),
        _ => own,
    };
    let (wanted, found) = (kind.split('/').count() - 1, name.split('/').count());
    match wanted == found {
        true => Ok(name),
        false => {
            let why = format!("'{name}' has {found} segments, its type {kind} has {wanted}");
            Err(below(Error::here(why)))
        }
    }
}
