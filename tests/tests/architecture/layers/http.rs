//! The modules of `http`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["failure"], &[]),
    (&["watched_stream"], &[]),
    (&["probe"], &[]),
    (&["connection"], &["failure", "probe", "watched_stream"]),
    (&["origins"], &["connection", "failure", "probe"]),
    (&["instant"], &[]),
    (&["messages"], &["failure", "instant"]),
    (&["path"], &["instant"]),
    (&["atom"], &["failure", "instant", "lib", "path"]),
    (&["whole_body"], &["atom", "failure", "messages"]),
    (&["access"], &["atom", "connection", "failure", "messages", "path", "probe", "whole_body"]),
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
            "origins",
            "path",
            "probe",
            "process",
            "tunnel",
            "whole_body",
        ],
    ),
];
