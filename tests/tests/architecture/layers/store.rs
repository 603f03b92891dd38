//! The modules of `store`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["error"], &[]),
    (&["damage"], &["error"]),
    (&["disk"], &["error"]),
    (&["options"], &[]),
    (&["records"], &["error"]),
    (&["log"], &["damage", "disk", "error", "options", "records"]),
    (&["rows"], &["damage", "disk", "error", "log", "options", "records"]),
    (&["identity"], &["damage", "error", "log", "options", "rows"]),
];
