//! The modules of `replication`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["blocking"], &[]),
    (&["disk", "metrics"], &["blocking"]),
    (&["error"], &[]),
    (&["sockets"], &[]),
    (&["history"], &[]),
    (&["runs"], &[]),
    (&["config"], &["sockets"]),
    (
        &["group", "member", "observer", "peer", "raft"],
        &["blocking", "config", "error", "history", "metrics", "runs", "sockets"],
    ),
    (&["bootstrap"], &["blocking", "error", "peer"]),
    (&["liveness"], &["config", "group", "member", "peer", "raft"]),
    (&["retention"], &["blocking", "config", "disk", "group", "metrics", "raft"]),
    (
        &["node"],
        &[
            "blocking",
            "bootstrap",
            "config",
            "disk",
            "error",
            "group",
            "history",
            "liveness",
            "member",
            "metrics",
            "observer",
            "peer",
            "raft",
            "retention",
            "runs",
        ],
    ),
];
