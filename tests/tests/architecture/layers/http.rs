//! The modules of `http`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["entity_metrics"], &[]),
    (&["failure"], &[]),
    (&["watched_stream"], &[]),
    (&["probe"], &[]),
    (&["caller"], &["failure", "probe"]),
    (&["http_2"], &["caller", "failure"]),
    (&["connection"], &["caller", "failure", "http_2", "watched_stream"]),
    (&["origins"], &["caller", "failure", "probe"]),
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
            "entity_metrics",
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
