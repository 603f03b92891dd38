//! The modules of `http`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["failure"], &[]),
    (&["connection"], &["failure"]),
    (&["messages"], &["failure"]),
    (&["path"], &[]),
    (&["atom"], &["failure", "lib", "path"]),
    (&["access"], &["atom", "connection", "failure", "path"]),
    (&["process"], &[]),
    (&["tunnel"], &["connection", "failure"]),
    (&["options"], &["path", "tunnel"]),
    (
        &["dispatch", "health", "metrics", "server"],
        &[
            "access",
            "atom",
            "connection",
            "failure",
            "lib",
            "messages",
            "options",
            "path",
            "process",
            "tunnel",
        ],
    ),
];
