//! The modules of `workload`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["noise"], &[]),
    (&["body"], &["noise"]),
    (&["checker"], &[]),
    (&["latency"], &[]),
    (&["interval_log"], &["latency"]),
    (&["metrics"], &[]),
    (&["way"], &["lib"]),
    (&["link"], &["way"]),
    (&["nodes"], &["metrics", "way"]),
    (&["pace"], &[]),
    (&["queues"], &["lib"]),
    (&["report"], &[]),
    (&["churn"], &["latency", "lib", "nodes", "report"]),
    (&["fill"], &["report"]),
    (&["backlog"], &["fill", "lib", "nodes", "report"]),
    (&["expiry"], &["fill", "latency", "lib", "nodes", "pace", "queues", "report"]),
    (
        &["lifecycle"],
        &["body", "latency", "lib", "link", "nodes", "pace", "queues", "report", "way"],
    ),
    (&["neighbour"], &["fill", "latency", "lib", "nodes", "pace", "report"]),
];
