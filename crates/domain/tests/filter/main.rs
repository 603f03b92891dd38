//! The rule language, rule by rule, then properties: the evaluator against one too plain to be wrong,
//! the index against trying each filter, and texts that are no filters at all.

mod support;

mod action;
mod correlation;
mod cost;
mod errors;
mod examples;
mod explain;
mod functions;
mod grammar;
mod like;
mod logic;
mod names;
mod numbers;
mod types;

mod properties;
