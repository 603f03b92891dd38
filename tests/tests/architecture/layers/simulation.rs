//! The modules of `simulation`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["bug"], &[]),
    (&["random"], &[]),
    (&["clock"], &["random"]),
    (&["node"], &["clock"]),
    (&["options"], &["bug", "random"]),
    (&["report"], &["options"]),
    (&["real"], &["random", "report"]),
    (&["rules"], &["random"]),
    (&["seeds"], &[]),
    (&["tamper"], &["bug"]),
    (
        &[
            "client",
            "forwarding",
            "group",
            "invariants",
            "leader",
            "network",
            "operator",
            "oracle",
            "raft",
            "replica",
        ],
        &["bug", "node", "options", "random", "report", "rules", "tamper"],
    ),
    (&["cluster"], &["clock", "forwarding", "group", "node", "options", "random", "report"]),
    (&["faults"], &["bug", "clock", "cluster", "group", "node", "raft"]),
];
