//! Where expressions are evaluated: a template's parameters and variables, the loops that are under way.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::context::{Context, Question};
use crate::expression::{Expression, Written, written};
use crate::{Error, function, lambda, reference, user_function};

/// Turns of one loop; as Azure has it.
const TURNS_MAX: usize = 800;
/// Values that one template may come to, whatever loops and unions make of it.
const VALUES_MAX: u32 = 1_000_000;
/// Values and texts that calls may come to, all together: each that is doubled is half of another.
const WEIGHT_MAX: u64 = 5_000_000;
/// Of a text, so many bytes weigh as a value.
const BYTES_OF_VALUE: u64 = 16;
/// Variables that depend on variables, objects in objects.
const DEPTH_MAX: u32 = 100;

/// What is left of the time and the stack that a template may take.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    values: Rc<Cell<u32>>,
    weight: Rc<Cell<u64>>,
    depth: Rc<Cell<u32>>,
}

fn weight(of: &Value) -> u64 {
    match of {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() as u64 / BYTES_OF_VALUE,
        Value::Array(values) => 1 + values.iter().map(weight).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(weight).sum::<u64>(),
    }
}

impl Budget {
    pub fn new() -> Budget {
        let weight = Rc::new(Cell::new(WEIGHT_MAX));
        Budget {
            values: Rc::new(Cell::new(VALUES_MAX)),
            weight,
            depth: Rc::new(Cell::new(DEPTH_MAX)),
        }
    }

    /// What a call came to, if there is room for it.
    fn kept(&self, value: Value) -> Result<Value, Error> {
        match self.weight.get().checked_sub(weight(&value)) {
            Some(left) => {
                self.weight.set(left);
                Ok(value)
            }
            None => Err(Error::here("the template's values are too large")),
        }
    }

    /// Runs what takes one value, and one more of the stack.
    pub fn within<T>(&self, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let (values, depth) = (self.values.get(), self.depth.get());
        if values == 0 {
            return Err(Error::here(format!(
                "the template comes to more than {VALUES_MAX} values"
            )));
        }
        if depth == 0 {
            return Err(Error::here(format!(
                "values depend on each other more than {DEPTH_MAX} deep"
            )));
        }
        self.values.set(values - 1);
        self.depth.set(depth - 1);
        let result = run();
        self.depth.set(depth);
        result
    }
}

/// What all templates of one evaluation share.
#[derive(Clone)]
pub(crate) struct Run<'t> {
    pub budget: Budget,
    pub context: &'t Context,
    /// What was asked and not answered.
    pub questions: Rc<RefCell<BTreeSet<Question>>>,
    /// What the template's own resources were referred to as, since somebody looked.
    pub referred: Rc<RefCell<Vec<String>>>,
}

impl<'t> Run<'t> {
    pub fn new(context: &'t Context) -> Run<'t> {
        let (questions, referred) = (Rc::default(), Rc::default());
        Run { budget: Budget::new(), context, questions, referred }
    }

    /// The answer, if it is known; else it is asked for.
    pub fn answer(&self, question: Question) -> Option<&'t Value> {
        let known = self.context.answer(&question);
        if known.is_none() {
            self.questions.borrow_mut().insert(question);
        }
        known
    }
}

/// A template, and what its names mean.
pub(crate) struct Scope<'t> {
    /// `variables` and `resources` of the template.
    pub template: &'t Map<String, Value>,
    /// Values that were given, by their names in lower case.
    pub given: BTreeMap<String, Value>,
    /// What the deployment of the template is called.
    pub deployment: String,
    /// Only what was given is known: the body of a function of the template's own.
    pub is_function: bool,
    /// What was evaluated before; none while it is.
    found: RefCell<BTreeMap<String, Option<Value>>>,
    pub run: Run<'t>,
}

/// A scope, and the loops around an expression.
#[derive(Clone)]
pub(crate) struct Frame<'s> {
    pub scope: &'s Scope<'s>,
    pub turns: Vec<Turn>,
    /// Of lambdas.
    pub locals: Vec<(String, Value)>,
}

/// Where a loop is.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub name: String,
    pub index: usize,
}

impl<'t> Scope<'t> {
    pub fn new(
        template: &'t Map<String, Value>,
        given: BTreeMap<String, Value>,
        deployment: String,
        run: Run<'t>,
    ) -> Scope<'t> {
        let found = RefCell::default();
        Scope { template, given, deployment, is_function: false, found, run }
    }

    /// Of a function of the template: it knows its arguments.
    pub fn of_function(&self, given: BTreeMap<String, Value>) -> Scope<'t> {
        let inner = Scope::new(self.template, given, self.deployment.clone(), self.run.clone());
        Scope { is_function: true, ..inner }
    }

    pub fn frame(&self) -> Frame<'_> {
        Frame { scope: self, turns: Vec::new(), locals: Vec::new() }
    }

    /// Evaluated once, where it is asked for first.
    pub fn once(
        &self,
        key: String,
        find: impl FnOnce() -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        match self.found.borrow().get(&key) {
            Some(Some(value)) => return Ok(value.clone()),
            Some(None) => return Err(Error::here(format!("{key} depends on itself"))),
            None => (),
        }
        self.found.borrow_mut().insert(key.clone(), None);
        let found = find();
        match &found {
            Ok(value) => self.found.borrow_mut().insert(key, Some(value.clone())),
            Err(_) => self.found.borrow_mut().remove(&key),
        };
        found
    }

    pub fn parameter(&self, name: &str) -> Result<Value, Error> {
        let lower = name.to_lowercase();
        if let Some(value) = self.given.get(&lower) {
            return Ok(value.clone());
        }
        if self.is_function {
            return Err(Error::here(format!("the function has no parameter '{name}'")));
        }
        let declared = member(self.template.get("parameters"), name);
        let Some(declared) = declared.and_then(Value::as_object) else {
            return Err(Error::here(format!("there is no parameter '{name}'")));
        };
        let Some(default) = declared.get("defaultValue") else { return Ok(Value::Null) };
        self.once(format!("parameter '{lower}'"), || {
            let found = self.frame().evaluate(default);
            found.map_err(|error| error.below(&format!("parameters.{name}.defaultValue")))
        })
    }

    fn variable(&self, name: &str) -> Result<Value, Error> {
        if self.is_function {
            return Err(Error::here("a function of a template knows no variables"));
        }
        let variables = self.template.get("variables");
        let key = || format!("variable '{}'", name.to_lowercase());
        let below = |error: Error| error.below(&format!("variables.{name}"));
        if let Some(value) = member(variables, name).filter(|_| !name.eq_ignore_ascii_case("copy"))
        {
            return self.once(key(), || self.frame().evaluate(value).map_err(below));
        }
        let loops = member(variables, "copy").and_then(Value::as_array);
        let is_it = |one: &&Value| {
            one.get("name")
                .and_then(Value::as_str)
                .is_some_and(|its| its.eq_ignore_ascii_case(name))
        };
        match loops.into_iter().flatten().find(is_it) {
            Some(of) => self.once(key(), || self.frame().loop_over(of).map_err(below)),
            None => Err(Error::here(format!("there is no variable '{name}'"))),
        }
    }
}

/// Of an object, whatever the case of its name.
pub(crate) fn member<'v>(of: Option<&'v Value>, name: &str) -> Option<&'v Value> {
    let members = of?.as_object()?;
    members.get(name).or_else(|| {
        members.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    })
}

impl Frame<'_> {
    /// A value of a template, whose strings may be expressions.
    pub fn evaluate(&self, value: &Value) -> Result<Value, Error> {
        self.scope.run.budget.within(|| match value {
            Value::String(text) => self.string(text),
            Value::Array(values) => {
                let of = |(index, value)| {
                    self.evaluate(value).map_err(|error| error.below(&format!("[{index}]")))
                };
                values.iter().enumerate().map(of).collect()
            }
            Value::Object(members) => self.object(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
        })
    }

    pub fn string(&self, text: &str) -> Result<Value, Error> {
        match written(text).map_err(Error::here)? {
            Written::Literal(text) => Ok(text.into()),
            Written::Expression(expression) => self.expression(&expression),
        }
    }

    /// A list named `copy` in an object makes members of it that are lists.
    fn object(&self, members: &Map<String, Value>) -> Result<Value, Error> {
        let mut evaluated = Map::new();
        for (name, value) in members {
            if let ("copy", Value::Array(loops)) = (name.as_str(), value) {
                for (index, of) in loops.iter().enumerate() {
                    let at = |error: Error| error.below(&format!("copy[{index}]"));
                    let name = of.get("name").and_then(Value::as_str);
                    let name = name.ok_or_else(|| at(Error::here("it lacks a name")))?;
                    evaluated.insert(name.to_owned(), self.loop_over(of).map_err(at)?);
                }
                continue;
            }
            let value = self.evaluate(value).map_err(|error| error.below(name))?;
            let name = match written(name).map_err(Error::here)? {
                Written::Literal(name) => name,
                Written::Expression(expression) => match self.expression(&expression)? {
                    Value::String(name) => name,
                    other => return Err(Error::here(format!("a member is named by {other}"))),
                },
            };
            evaluated.insert(name, value);
        }
        Ok(Value::Object(evaluated))
    }

    /// `{ name, count, input }`: the inputs of all turns.
    pub fn loop_over(&self, of: &Value) -> Result<Value, Error> {
        let name = of.get("name").and_then(Value::as_str).unwrap_or_default();
        let input = of.get("input").unwrap_or(&Value::Null);
        let turn = |index| {
            let turned = self.turned(name, index).evaluate(input);
            turned.map_err(|error| error.below(&format!("input (turn {index})")))
        };
        (0..self.turns_of(of)?).map(turn).collect()
    }

    /// How often a loop runs.
    pub fn turns_of(&self, of: &Value) -> Result<usize, Error> {
        let count = self.evaluate(of.get("count").unwrap_or(&Value::Null))?;
        let number = count.as_u64().and_then(|count| usize::try_from(count).ok());
        number.filter(|count| *count <= TURNS_MAX).ok_or_else(|| {
            Error::here(format!("{count} is no count of a loop: 0 to {TURNS_MAX}")).below("count")
        })
    }

    /// In a turn of a loop.
    pub fn turned(&self, name: &str, index: usize) -> Self {
        let mut turned = self.clone();
        turned.turns.push(Turn { name: name.to_owned(), index });
        turned
    }

    pub fn expression(&self, expression: &Expression) -> Result<Value, Error> {
        self.scope.run.budget.within(|| match expression {
            Expression::Text(text) => Ok(text.as_str().into()),
            Expression::Integer(number) => Ok((*number).into()),
            Expression::Index { of, index } => {
                let (of, index) = (self.expression(of)?, self.expression(index)?);
                function::index(&of, &index).map_err(Error::here)
            }
            Expression::Call { name, arguments } => {
                self.scope.run.budget.kept(self.call(name, arguments)?)
            }
        })
    }

    fn call(&self, name: &str, arguments: &[Expression]) -> Result<Value, Error> {
        let lower = name.to_ascii_lowercase();
        let argument = |index: usize| match arguments.get(index) {
            Some(argument) => self.expression(argument),
            None => Err(Error::here(format!("{name}(…) takes {} arguments or more", index + 1))),
        };
        let text = |index: usize| match argument(index)? {
            Value::String(text) => Ok(text),
            other => Err(Error::here(format!("{name}(…) takes a text, and no {other}"))),
        };
        let truth =
            |index: usize| function::truth(&argument(index)?).map_err(|why| in_call(name, &why));
        match lower.as_str() {
            "parameters" => self.scope.parameter(&text(0)?),
            "variables" => self.scope.variable(&text(0)?),
            "copyindex" => self.copy_index(arguments),
            // What is not chosen is not evaluated: it may fail on purpose.
            "if" => argument(if truth(0)? { 1 } else { 2 }),
            "and" => self.each(arguments, name, true),
            "or" => self.each(arguments, name, false),
            "reference" => reference::resource(self, &argument(0)?, arguments.len() > 2),
            "deployment" => Ok(reference::deployment(self)),
            lists if lists.starts_with("list") && lists != "list" => {
                reference::list(self, name, &argument(0)?)
            }
            _ => match lambda::call(self, &lower, arguments) {
                Some(result) => result,
                None => self.call_by_value(name, arguments),
            },
        }
    }

    /// A function that is given values, and knows no more than them and where it is.
    fn call_by_value(&self, name: &str, arguments: &[Expression]) -> Result<Value, Error> {
        let values: Vec<Value> =
            arguments.iter().map(|one| self.expression(one)).collect::<Result<_, _>>()?;
        if let Some(result) = user_function::call(self, name, &values) {
            return result.map_err(|error| in_call(name, &error.to_string()).waiting(error.waits));
        }
        match function::call(self.scope.run.context, name, &values) {
            Some(result) => result.map_err(|why| in_call(name, &why)),
            None => Err(Error::here(format!("function '{name}' is not known"))),
        }
    }

    /// `and` ends with the first that is not so, `or` with the first that is.
    fn each(&self, arguments: &[Expression], name: &str, goes_on: bool) -> Result<Value, Error> {
        for argument in arguments {
            let truth = function::truth(&self.expression(argument)?);
            if truth.map_err(|why| in_call(name, &why))? != goes_on {
                return Ok(Value::Bool(!goes_on));
            }
        }
        Ok(Value::Bool(goes_on))
    }

    /// `copyIndex()`, `copyIndex(1)`, `copyIndex('loop')`, `copyIndex('loop', 1)`.
    fn copy_index(&self, arguments: &[Expression]) -> Result<Value, Error> {
        let values: Vec<Value> =
            arguments.iter().map(|one| self.expression(one)).collect::<Result<_, _>>()?;
        let (name, offset) = match values.as_slice() {
            [Value::String(name), rest @ ..] => (Some(name), rest.first()),
            rest => (None, rest.first()),
        };
        let turn = match name {
            Some(name) => self.turns.iter().rfind(|turn| turn.name.eq_ignore_ascii_case(name)),
            None => self.turns.last(),
        };
        let turn = turn.ok_or_else(|| match name {
            Some(name) => Error::here(format!("copyIndex('{name}') is in no loop of that name")),
            None => Error::here("copyIndex() is in no loop"),
        })?;
        let offset = offset.and_then(Value::as_i64).unwrap_or_default();
        Ok((turn.index as i64).saturating_add(offset).into())
    }
}

pub(crate) fn in_call(name: &str, why: &str) -> Error {
    Error::here(format!("{name}(…): {why}"))
}
