//! The modules of `workload`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["body"], &[]),
    (&["checker"], &[]),
    (&["latency"], &[]),
    (&["metrics"], &[]),
    (&["way"], &["lib"]),
    (&["nodes"], &["metrics", "way"]),
    (&["pace"], &[]),
    (&["queues"], &["lib"]),
    (&["report"], &[]),
    (&["churn"], &["latency", "lib", "nodes", "report"]),
    (&["fill"], &["report"]),
    (&["backlog"], &["fill", "lib", "nodes", "report"]),
    (&["expiry"], &["fill", "latency", "lib", "nodes", "pace", "queues", "report"]),
    (&["lifecycle"], &["body", "latency", "lib", "nodes", "pace", "queues", "report", "way"]),
    (&["neighbour"], &["fill", "latency", "lib", "nodes", "pace", "report"]),
];
