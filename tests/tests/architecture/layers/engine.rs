//! The modules of `engine`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["agreement"], &[]),
    (&["fanout"], &[]),
    (&["idle"], &[]),
    (&["coordinator"], &["idle"]),
    (&["options"], &[]),
    (&["credit"], &["options"]),
    (&["forwards"], &["options"]),
    (&["match_limits"], &["fanout"]),
    (&["placement"], &[]),
    (&["session_timers"], &[]),
    (&["sessions"], &["credit", "options"]),
    (&["timers"], &["options", "session_timers"]),
    (
        &["engine", "rebuild"],
        &["credit", "fanout", "forwards", "idle", "options", "match_limits", "sessions", "timers"],
    ),
];
