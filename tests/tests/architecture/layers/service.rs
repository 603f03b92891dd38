//! The modules of `service`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["certificates"], &[]),
    (&["clock"], &[]),
    (&["events"], &[]),
    (&["facts"], &[]),
    (&["config"], &["certificates", "clock", "events", "facts"]),
    (&["exchange"], &["clock"]),
    (&["metric"], &["clock", "exchange"]),
    (&["error"], &["metric"]),
    (&["leader"], &["clock", "config", "exchange", "metric"]),
    (&["peer"], &["certificates", "clock", "config", "exchange", "facts", "leader"]),
    (
        &["edge"],
        &["certificates", "clock", "config", "error", "exchange", "facts", "leader", "peer"],
    ),
    (&["trace"], &[]),
    (&["upkeep"], &["clock", "config", "edge", "exchange", "leader", "metric", "peer"]),
    (&["node"], &["clock", "config", "edge", "events", "leader", "metric", "peer", "upkeep"]),
];
