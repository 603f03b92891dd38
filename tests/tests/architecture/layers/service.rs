//! The modules of `service`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["certificates"], &[]),
    (&["clock"], &[]),
    (&["config"], &["certificates", "clock"]),
    (&["exchange"], &["clock"]),
    (&["metric"], &["clock", "exchange"]),
    (&["error"], &["metric"]),
    (&["leader"], &["clock", "config", "exchange", "metric"]),
    (&["peer"], &["certificates", "clock", "config", "exchange", "leader"]),
    (&["edge"], &["certificates", "clock", "config", "error", "exchange", "leader", "peer"]),
    (&["trace"], &[]),
    (&["upkeep"], &["clock", "config", "edge", "exchange", "leader", "metric", "peer"]),
    (&["node"], &["clock", "config", "edge", "leader", "metric", "peer", "upkeep"]),
];
