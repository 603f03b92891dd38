//! A template's resources: loops, conditions, children and modules come to a flat list, and an order.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::context::{Context, Question};
use crate::outputs::outputs;
use crate::scope::{Frame, Run};
use crate::{Error, function, module, order, parameters, placeholder};

/// Modules in modules.
const DEPTH_MAX: usize = 16;
/// Resources and modules of one template, where it is deployed; as Azure has it.
const NODES_MAX: usize = 800;
/// Of a resource what is the template's language; the rest is the resource's.
const LANGUAGE: [&str; 11] = [
    "type",
    "apiVersion",
    "name",
    "condition",
    "copy",
    "dependsOn",
    "resources",
    "comments",
    "metadata",
    "existing",
    "asserts",
];

/// What a template comes to.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// Those that were asked for, in the order of the template.
    pub resources: Vec<Resource>,
    pub modules: Vec<Module>,
    /// All of the resources and modules, with what comes before each.
    pub nodes: Vec<Node>,
    /// How many others there are of each type.
    pub skipped: BTreeMap<String, usize>,
    /// `{ type, value }` each; where nobody answers questions, null.
    pub outputs: Map<String, Value>,
    /// `{ type, value }` each, secrets without theirs.
    pub parameters: Map<String, Value>,
    /// What was asked of resources and is not known yet. Where a value depends on that, it is a
    /// [placeholder](crate::placeholder).
    pub questions: Vec<Question>,
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
    pub api_version: String,
    /// It is only referred to.
    pub is_existing: bool,
    /// All that is said of the resource itself, `properties` among it.
    pub body: Map<String, Value>,
}

/// A template in the template: a deployment of its own.
#[derive(Clone, Debug)]
pub struct Module {
    pub at: String,
    pub name: String,
    /// Where it goes, if that is said.
    pub group: Option<String>,
    /// Of its template, as of [`Evaluation`].
    pub outputs: Map<String, Value>,
    pub parameters: Map<String, Value>,
}

/// A place in the order of a deployment.
#[derive(Clone, Debug)]
pub struct Node {
    pub at: String,
    /// The module that it is in.
    pub within: Option<usize>,
    /// What has to be done before, as the template or its parts say.
    pub after: Vec<usize>,
    pub is: NodeKind,
}

#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Its condition does not hold.
    Absent,
    /// By its index.
    Resource(usize),
    Module(usize),
    /// What it is depends on an answer.
    Waits(Error),
}

/// Evaluates a template. `is_wanted` is asked of each resource's type; others are counted.
///
/// # Errors
/// Everything that is wrong: with parameters, or with a resource that is asked for.
pub fn evaluate(
    template: &Value,
    given: &BTreeMap<String, Value>,
    context: &Context,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Evaluation, Vec<Error>> {
    let run = Run::new(context);
    let scope = parameters::scope(template, given, &context.deployment_name, run.clone())?;
    let evaluation = Evaluation::default();
    let (drafts, errors) = (Vec::new(), Vec::new());
    let mut expansion = Expansion { is_wanted, run: run.clone(), evaluation, drafts, errors };
    let root = Place { parent: None, within: None, depth: 0 };
    expansion.all(template, &scope.frame(), &root, "");
    let Expansion { mut evaluation, drafts, mut errors, .. } = expansion;
    match context.is_deployed() {
        true if evaluation.nodes.len() > NODES_MAX => {
            let count = evaluation.nodes.len();
            let why = format!("it comes to {count} resources and modules, allowed are {NODES_MAX}");
            errors.push(Error::new("resources", why));
        }
        true => {
            errors.extend(order::resolve(&mut evaluation.nodes, &drafts));
            let (found, wrong) = outputs(template, &scope.frame());
            errors.extend(wrong);
            evaluation.outputs = found;
            evaluation.parameters = parameters::shown(&scope);
        }
        false => {
            let declared = template.get("outputs").and_then(Value::as_object);
            let names = declared.into_iter().flat_map(|outputs| outputs.keys().cloned());
            evaluation.outputs = names.map(|name| (name, Value::Null)).collect();
        }
    }
    evaluation.questions = run.questions.borrow().iter().cloned().collect();
    if errors.is_empty() { Ok(evaluation) } else { Err(errors) }
}

impl Resource {
    pub fn properties(&self) -> &Value {
        self.body.get("properties").unwrap_or(&Value::Null)
    }
}

/// What is known of a node beside what others are told.
#[derive(Default)]
pub(crate) struct Draft {
    pub symbol: Option<String>,
    pub loop_name: Option<String>,
    pub kind: String,
    /// Empty: not known yet.
    pub name: String,
    /// As the template writes it: ids, names, symbolic names, loops.
    pub depends_on: Vec<String>,
    /// As its expressions name others.
    pub refers: Vec<String>,
    pub is_existing: bool,
}

struct Expansion<'w, 't> {
    is_wanted: &'w dyn Fn(&str) -> bool,
    run: Run<'t>,
    evaluation: Evaluation,
    /// One for each node.
    drafts: Vec<Draft>,
    errors: Vec<Error>,
}

/// What is around a resource.
#[derive(Clone, Copy)]
struct Place<'p> {
    parent: Option<&'p Parent>,
    within: Option<usize>,
    depth: usize,
}

/// Type and name of the resource around one.
struct Parent {
    kind: String,
    name: String,
}

/// A resource in a turn of its loop, before it is evaluated.
struct Instance<'r> {
    resource: &'r Value,
    kind: &'r str,
    symbol: Option<&'r str>,
    loop_name: Option<&'r str>,
    at: &'r str,
}

impl Expansion<'_, '_> {
    /// `of`: what has `resources`; `at`: its path.
    fn all(&mut self, of: &Value, frame: &Frame<'_>, place: &Place<'_>, at: &str) {
        let path = if at.is_empty() { "resources".to_owned() } else { format!("{at}.resources") };
        match of.get("resources") {
            Some(Value::Array(resources)) => {
                for (index, resource) in resources.iter().enumerate() {
                    self.one(resource, None, frame, place, &format!("{path}[{index}]"));
                }
            }
            Some(Value::Object(resources)) => {
                for (name, resource) in resources {
                    self.one(resource, Some(name), frame, place, &format!("{path}.{name}"));
                }
            }
            None | Some(Value::Null) => (),
            Some(_) => self.errors.push(Error::new(path, "it is neither a list nor an object")),
        }
    }

    fn one(
        &mut self,
        resource: &Value,
        symbol: Option<&str>,
        frame: &Frame<'_>,
        place: &Place<'_>,
        at: &str,
    ) {
        let Some(kind) = resource.get("type").and_then(Value::as_str) else {
            return self.errors.push(Error::new(at, "it lacks a `type`"));
        };
        let kind = match place.parent {
            // The type of a child is short; one with its provider is whole.
            Some(parent) if !kind.contains('/') => format!("{}/{kind}", parent.kind),
            _ => kind.to_owned(),
        };
        if !module::is_module(&kind) && !(self.is_wanted)(&kind) {
            *self.evaluation.skipped.entry(kind).or_default() += 1;
            return;
        }
        let turn = Instance { resource, kind: &kind, symbol, loop_name: None, at };
        let Some(copy) = resource.get("copy").filter(|copy| !copy.is_null()) else {
            return self.turn(&turn, frame, place);
        };
        let name = copy.get("name").and_then(Value::as_str).unwrap_or_default();
        match frame.turns_of(copy) {
            Ok(turns) => {
                for index in 0..turns {
                    let at = format!("{at} (turn {index})");
                    let turn = Instance { loop_name: Some(name), at: &at, ..turn };
                    self.turn(&turn, &frame.turned(name, index), place);
                }
            }
            Err(error) => self.errors.push(error.below("copy").below(at)),
        }
    }

    fn turn(&mut self, turn: &Instance<'_>, frame: &Frame<'_>, place: &Place<'_>) {
        let Instance { resource, kind, at, .. } = *turn;
        if place.depth > DEPTH_MAX {
            let why = format!("resources and modules are nested more than {DEPTH_MAX} deep");
            return self.errors.push(Error::new(at, why));
        }
        let node = self.node(turn, place);
        self.run.referred.borrow_mut().clear();
        let result = condition(resource, frame).and_then(|is_there| {
            if !is_there {
                // Others may name it, where that is known.
                let name = name(resource, kind, frame, place.parent);
                self.drafts[node].name = name.unwrap_or_default();
                return Ok(());
            }
            let name = name(resource, kind, frame, place.parent)?;
            if let Some(what) = placeholder::unknown_text(&name)
                && self.run.context.is_deployed()
            {
                return Err(Error::here(function::not_known(what)).below("name"));
            }
            self.drafts[node].name = name.clone();
            self.depend(resource, frame, node)?;
            match module::is_module(kind) {
                true => self.module(turn, name, frame, place, node),
                false => self.resource(turn, name, frame, place, node),
            }
        });
        match result {
            Ok(()) => (),
            Err(error) if error.waits && self.run.context.is_deployed() => {
                self.evaluation.nodes[node].is = NodeKind::Waits(error.below(at));
            }
            Err(error) => self.errors.push(error.below(at)),
        }
    }

    fn node(&mut self, turn: &Instance<'_>, place: &Place<'_>) -> usize {
        let (at, within, after) = (turn.at.to_owned(), place.within, Vec::new());
        self.evaluation.nodes.push(Node { at, within, after, is: NodeKind::Absent });
        self.drafts.push(Draft {
            symbol: turn.symbol.map(str::to_owned),
            loop_name: turn.loop_name.map(str::to_owned),
            kind: turn.kind.to_owned(),
            ..Draft::default()
        });
        self.drafts.len() - 1
    }

    /// What a resource says that it comes after. Where nothing is deployed nothing has an order.
    fn depend(&mut self, resource: &Value, frame: &Frame<'_>, node: usize) -> Result<(), Error> {
        let Some(on) = resource.get("dependsOn").filter(|_| self.run.context.is_deployed()) else {
            return Ok(());
        };
        let below = |error: Error| error.below("dependsOn");
        let Value::Array(on) = frame.evaluate(on).map_err(below)? else {
            return Err(below(Error::here("it is no list")));
        };
        let texts = on.iter().filter_map(Value::as_str).map(str::to_owned);
        self.drafts[node].depends_on = texts.collect();
        Ok(())
    }

    fn resource(
        &mut self,
        turn: &Instance<'_>,
        name: String,
        frame: &Frame<'_>,
        place: &Place<'_>,
        node: usize,
    ) -> Result<(), Error> {
        let Instance { resource, kind, at, .. } = *turn;
        let is_existing = resource.get("existing").and_then(Value::as_bool) == Some(true);
        self.drafts[node].is_existing = is_existing;
        let is_deployed = self.run.context.is_deployed();
        let mut body = Map::new();
        for (member, value) in resource.as_object().into_iter().flatten().filter(|_| !is_existing) {
            let is_told = match is_deployed {
                true => !LANGUAGE.contains(&member.as_str()),
                false => member == "properties",
            };
            if is_told {
                let value = frame.evaluate(value).map_err(|error| error.below(member))?;
                body.insert(member.clone(), value);
            }
        }
        self.drafts[node].refers = self.run.referred.take();
        let version = resource.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        self.evaluation.nodes[node].is = NodeKind::Resource(self.evaluation.resources.len());
        self.evaluation.resources.push(Resource {
            at: at.to_owned(),
            kind: kind.to_owned(),
            name: name.clone(),
            api_version: version.to_owned(),
            is_existing,
            body,
        });
        let parent = Parent { kind: kind.to_owned(), name };
        let below = Place { parent: Some(&parent), depth: place.depth + 1, ..*place };
        self.all(resource, frame, &below, at);
        Ok(())
    }

    /// A template in a template.
    fn module(
        &mut self,
        turn: &Instance<'_>,
        name: String,
        frame: &Frame<'_>,
        place: &Place<'_>,
        node: usize,
    ) -> Result<(), Error> {
        let Instance { resource, at, .. } = *turn;
        let properties = format!("{at}.properties");
        let Some(template) = resource.pointer("/properties/template") else {
            let why = "what it links to cannot be followed; put the template in its place, as \
                       'bicep build' does";
            return Err(Error::new("properties", why));
        };
        let group = resource.get("resourceGroup").filter(|group| !group.is_null());
        let group = group.map(|group| frame.evaluate(group)).transpose()?;
        let group = group.and_then(|group| group.as_str().map(str::to_owned));
        let mut told =
            Module { at: at.to_owned(), name, group, outputs: Map::new(), parameters: Map::new() };
        let below = Place { parent: None, within: Some(node), depth: place.depth + 1 };
        let at_template = format!("{properties}.template");
        let is_deployed = self.run.context.is_deployed();
        if !module::is_inner(resource) {
            // Its expressions are those of the template around it.
            self.drafts[node].refers = self.run.referred.take();
            self.add_module(node, told);
            self.all(template, frame, &below, &at_template);
            if is_deployed {
                self.tell(node, outputs(template, frame), &at_template);
            }
            return Ok(());
        }
        let (given, errors) = module::given(resource, frame);
        self.drafts[node].refers = self.run.referred.take();
        self.errors.extend(errors.into_iter().map(|error| error.below(&properties)));
        match module::scope(template, &given, &told.name, &frame.scope.run) {
            Ok(inner) => {
                told.parameters = parameters::shown(&inner);
                self.add_module(node, told);
                self.all(template, &inner.frame(), &below, &at_template);
                if is_deployed {
                    self.tell(node, outputs(template, &inner.frame()), &at_template);
                }
            }
            Err(errors) => {
                self.errors.extend(errors.into_iter().map(|error| error.below(&at_template)));
            }
        }
        Ok(())
    }

    fn add_module(&mut self, node: usize, module: Module) {
        self.evaluation.nodes[node].is = NodeKind::Module(self.evaluation.modules.len());
        self.evaluation.modules.push(module);
    }

    fn tell(&mut self, node: usize, told: (Map<String, Value>, Vec<Error>), at: &str) {
        let (outputs, errors) = told;
        self.errors.extend(errors.into_iter().map(|error| error.below(at)));
        if let NodeKind::Module(index) = self.evaluation.nodes[node].is {
            self.evaluation.modules[index].outputs = outputs;
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
