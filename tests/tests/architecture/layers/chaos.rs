//! The modules of `chaos`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["clock"], &[]),
    (&["entity"], &[]),
    (&["error"], &[]),
    (&["history"], &["clock"]),
    (&["plan"], &[]),
    (&["proxy"], &[]),
    (&["process"], &["error", "proxy"]),
    (&["api"], &[]),
    (&["agent"], &["api", "error", "process", "proxy"]),
    (&["cluster"], &["agent", "api", "error", "process", "proxy"]),
    (&["faults"], &["clock", "cluster", "error", "plan", "process", "proxy"]),
    (&["run"], &["entity", "history"]),
    (&["check"], &["entity", "history", "run"]),
    (&["observe"], &["clock", "entity", "run"]),
    (&["timeline"], &["check", "faults", "history", "run"]),
    (&["watcher"], &["clock", "cluster", "error", "timeline"]),
    (&["workloads"], &["cluster", "entity", "history"]),
    (
        &["experiment", "report"],
        &[
            "check",
            "clock",
            "cluster",
            "entity",
            "error",
            "faults",
            "history",
            "observe",
            "plan",
            "run",
            "timeline",
            "watcher",
            "workloads",
        ],
    ),
];
