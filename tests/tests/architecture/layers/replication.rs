//! The modules of `replication`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["blocking"], &[]),
    (&["disk", "metrics"], &["blocking"]),
    (&["error"], &[]),
    (&["sockets"], &[]),
    (&["runs"], &[]),
    (&["config"], &["sockets"]),
    (
        &["group", "member", "observer", "peer", "raft"],
        &["blocking", "config", "error", "metrics", "runs", "sockets"],
    ),
    (&["bootstrap"], &["blocking", "error", "peer"]),
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
