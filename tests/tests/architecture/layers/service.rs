//! The modules of `service`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["certificates"], &[]),
    (&["clock"], &[]),
    (&["events"], &[]),
    (&["facts"], &[]),
    (&["history"], &[]),
    (&["config"], &["certificates", "clock", "events", "facts"]),
    (&["exchange"], &["clock"]),
    (&["metric"], &["clock", "exchange"]),
    (&["error"], &["metric"]),
    (&["leader"], &["clock", "config", "exchange", "metric"]),
    (&["peer"], &["certificates", "clock", "config", "exchange", "facts", "history", "leader"]),
    (
        &["edge"],
        &[
            "certificates",
            "clock",
            "config",
            "error",
            "exchange",
            "facts",
            "history",
            "leader",
            "peer",
        ],
    ),
    (&["trace"], &[]),
    (&["upkeep"], &["clock", "config", "edge", "exchange", "history", "leader", "metric", "peer"]),
    (&["node"], &["clock", "config", "edge", "events", "leader", "metric", "peer", "upkeep"]),
];
