//! The modules of `http`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["failure"], &[]),
    (&["watched_stream"], &[]),
    (&["probe"], &[]),
    (&["caller"], &["failure", "probe"]),
    (&["http_2"], &["caller", "failure"]),
    (&["connection"], &["caller", "failure", "http_2", "watched_stream"]),
    (&["origins"], &["caller", "failure", "probe"]),
    (&["console_door"], &["caller", "probe"]),
    (&["instant"], &[]),
    (&["messages"], &["failure", "instant"]),
    (&["path"], &["instant"]),
    (&["fault_rules"], &["failure", "path"]),
    (&["atom"], &["failure", "instant", "lib", "path"]),
    (&["whole_body"], &["atom", "failure", "messages"]),
    (&["access"], &["atom", "caller", "failure", "messages", "path", "probe", "whole_body"]),
    (&["process"], &[]),
    (&["tunnel"], &["caller", "failure"]),
    (&["options"], &["path", "tunnel"]),
    (
        &["dispatch", "health", "metrics", "server"],
        &[
            "access",
            "atom",
            "connection",
            "console_door",
            "failure",
            "fault_rules",
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
