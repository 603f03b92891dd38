//! Azure Resource Manager's deployment templates ("ARM templates", JSON, and what Bicep compiles to),
//! evaluated without Azure: parameters, variables, expressions, loops, conditions, children and modules
//! come to a list of resources with plain values.
//!
//! Invariant: nothing of any provider is known here, no I/O, no clock; whatever a file holds ends in
//! resources or in errors with their places, never in a panic, and in bounded time.
//!
//! Source: the template reference of Azure Resource Manager, `deploymentTemplate.json` of 2019-04-01, with
//! its languageVersion 2.0. What other resources alone know (`reference`, `listKeys`) is a [`Question`]. Who deploys a
//! template answers it and evaluates again; until then, and where nobody answers, the value is a [placeholder], that is
//! refused only where a resource that is asked for depends on it.
//!
//! Reading order: expressions, values that are not known, what is around a template, functions, scopes, what
//! templates ask of resources, resources and their order.

mod error;
mod expression;
pub mod placeholder;
pub mod source;

mod context;

mod function;
mod lambda;
mod text_format;
mod user_function;

mod parameters;
mod scope;

mod module;
mod outputs;
mod reference;

mod order;
mod resources;

pub use context::{Context, Question};
pub use error::Error;
pub use parameters::{parameter_file, typed};
pub use resources::{Evaluation, Module, Node, NodeKind, Resource, evaluate};

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_deployed;
