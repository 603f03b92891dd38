//! Who may use whom inside a crate: a table for each crate, in a file of its own.

mod amqp;
mod amqp_protocol;
mod arm_template;
mod auth;
mod azure;
mod backup;
mod chaos;
mod client;
mod console;
mod definitions;
mod domain;
mod engine;
mod experiment;
mod grpc;
mod http;
mod load;
mod mayfly;
mod message_content;
mod replication;
mod service;
mod simulation;
mod store;
mod wire;
mod workload;

/// A module and the modules it may use. Several modules in one layer form a circle, each reaches each, and
/// what one of them needs all may use.
pub type Layer = (&'static [&'static str], &'static [&'static str]);

/// In reading order: arrows point up a table only, so there is no circle but those it names. A new arrow is
/// a design decision: it is made there. `lib` is what stands in the crate's root itself.
pub const CRATES: &[(&str, &[Layer])] = &[
    ("console", console::LAYERS),
    ("domain", domain::LAYERS),
    ("engine", engine::LAYERS),
    ("wire", wire::LAYERS),
    ("store", store::LAYERS),
    ("replication", replication::LAYERS),
    ("amqp-protocol", amqp_protocol::LAYERS),
    ("auth", auth::LAYERS),
    ("message-content", message_content::LAYERS),
    ("service", service::LAYERS),
    ("amqp", amqp::LAYERS),
    ("grpc", grpc::LAYERS),
    ("azure", azure::LAYERS),
    ("http", http::LAYERS),
    ("backup", backup::LAYERS),
    ("client", client::LAYERS),
    ("arm-template", arm_template::LAYERS),
    ("definitions", definitions::LAYERS),
    ("workload", workload::LAYERS),
    ("load", load::LAYERS),
    ("chaos", chaos::LAYERS),
    ("experiment", experiment::LAYERS),
    ("simulation", simulation::LAYERS),
    ("mayfly", mayfly::LAYERS),
];
