//! The modules of `http`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["failure"], &[]),
    (&["connection"], &["failure"]),
    (&["instant"], &[]),
    (&["messages"], &["failure", "instant"]),
    (&["path"], &["instant"]),
    (&["probe"], &[]),
    (&["atom"], &["failure", "instant", "lib", "path"]),
    (&["whole_body"], &["atom", "failure", "messages"]),
    (&["access"], &["atom", "connection", "failure", "path", "probe", "whole_body"]),
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
            "probe",
            "process",
            "tunnel",
            "whole_body",
        ],
    ),
];
