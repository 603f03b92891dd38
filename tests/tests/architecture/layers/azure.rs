//! The modules of `azure`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["path"], &[]),
    (&["failure"], &[]),
    (&["signature"], &[]),
    (&["config"], &[]),
    (&["authority"], &["signature"]),
    (&["discovery"], &["authority"]),
    (&["caller"], &["authority", "failure"]),
    (&["right"], &["caller", "path"]),
    (&["ask"], &["caller", "config", "failure"]),
    // A group is deleted with its namespaces, and a namespace is in a group.
    (&["groups", "namespaces"], &["ask", "failure"]),
    (&["authorization"], &["ask", "failure", "namespaces", "path"]),
    (&["entities"], &["ask", "failure", "namespaces"]),
    (&["network"], &["ask", "failure", "namespaces"]),
    (&["rules"], &["ask", "entities", "failure", "namespaces"]),
    (&["subscriptions"], &["ask", "failure", "groups"]),
    (
        &["router"],
        &[
            "ask",
            "authority",
            "authorization",
            "caller",
            "config",
            "discovery",
            "entities",
            "failure",
            "groups",
            "namespaces",
            "network",
            "path",
            "right",
            "rules",
            "signature",
            "subscriptions",
        ],
    ),
];
