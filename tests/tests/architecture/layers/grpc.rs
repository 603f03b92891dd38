//! The modules of `grpc`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["api"], &[]),
    (&["connection"], &[]),
    (&["status"], &[]),
    (&["right"], &[]),
    (&["node_facts"], &[]),
    (&["admission"], &["connection"]),
    (&["connection_limit"], &["connection", "status"]),
    (&["door"], &["connection", "connection_limit", "right", "status"]),
    (&["cluster"], &["api", "door", "right", "status"]),
    (&["connections"], &["api", "door", "node_facts", "status"]),
    (&["entities"], &["api", "door", "status"]),
    (&["fault_rules"], &["api", "door", "status"]),
    (
        &[
            "backups",
            "history",
            "messaging",
            "receive_stream",
            "send_stream",
            "server",
            "sessions",
            "transact_stream",
        ],
        &[
            "admission",
            "api",
            "cluster",
            "connection",
            "connection_limit",
            "connections",
            "door",
            "entities",
            "fault_rules",
            "status",
        ],
    ),
    (
        &["local"],
        &[
            "api",
            "cluster",
            "connection",
            "connections",
            "door",
            "entities",
            "fault_rules",
            "messaging",
            "right",
            "server",
            "sessions",
            "status",
        ],
    ),
];
