//! The modules of `http`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["connection"], &[]),
    (&["failure"], &[]),
    (&["messages"], &["failure"]),
    (&["path"], &[]),
    (&["atom"], &["failure", "lib", "path"]),
    (&["process"], &[]),
    (
        &["access", "dispatch", "health", "metrics", "server", "tunnel"],
        &["atom", "connection", "failure", "lib", "messages", "path", "process"],
    ),
];
