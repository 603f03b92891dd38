//! The modules of `experiment`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["error"], &[]),
    (&["flag"], &[]),
    (&["file"], &[]),
    (&["plan"], &["file"]),
    (&["lives"], &[]),
    (&["timeline"], &[]),
    (&["checks"], &["file", "lives", "timeline"]),
    (&["program"], &["file", "flag", "timeline"]),
    (&["entrance"], &[]),
    (&["feed"], &["file", "flag"]),
    (&["recorder"], &["error", "flag", "lives"]),
    (&["rules"], &["error"]),
    (&["stage"], &["entrance", "error", "file", "plan", "program", "rules"]),
    (&["report"], &["checks", "feed", "file", "lives", "program", "rules", "timeline"]),
    (
        &["run"],
        &["checks", "error", "feed", "file", "program", "recorder", "report", "stage", "timeline"],
    ),
];
