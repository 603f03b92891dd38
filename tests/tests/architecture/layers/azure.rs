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
    (&["runs"], &[]),
    (&["ask"], &["caller", "config", "failure", "runs"]),
    (&["records"], &["failure"]),
    // A group is deleted with its namespaces, and a namespace is in a group.
    (&["groups", "namespaces"], &["ask", "failure", "records"]),
    (&["authorization"], &["ask", "failure", "namespaces", "path"]),
    (&["entities"], &["ask", "failure", "namespaces"]),
    (&["network"], &["ask", "failure", "namespaces"]),
    (&["rules"], &["ask", "entities", "failure", "namespaces"]),
    (&["subscriptions"], &["ask", "failure", "groups"]),
    (
        &["resource"],
        &[
            "ask",
            "authorization",
            "entities",
            "failure",
            "namespaces",
            "network",
            "path",
            "right",
            "rules",
        ],
    ),
    // They put what clients put, by the same door.
    (
        &["deployments"],
        &[
            "ask",
            "discovery",
            "failure",
            "groups",
            "namespaces",
            "path",
            "records",
            "resource",
            "runs",
            "subscriptions",
        ],
    ),
    (
        &["router"],
        &[
            "ask",
            "authority",
            "caller",
            "config",
            "deployments",
            "discovery",
            "failure",
            "groups",
            "namespaces",
            "path",
            "resource",
            "right",
            "runs",
            "signature",
            "subscriptions",
        ],
    ),
];
