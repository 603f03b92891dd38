//! The modules of `fault-rules`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["error_name"], &[]),
    (&["operation"], &[]),
    (&["span_range"], &[]),
    (&["effect"], &["error_name", "operation", "span_range"]),
    (&["event"], &["operation"]),
    (&["metric"], &[]),
    (&["occasion"], &[]),
    (&["place"], &["event", "operation"]),
    (&["written"], &["effect", "error_name", "operation", "span_range"]),
    (
        &["rule"],
        &["effect", "error_name", "occasion", "operation", "place", "span_range", "written"],
    ),
    (&["book"], &["effect", "error_name", "event", "metric", "occasion", "operation", "rule"]),
];
