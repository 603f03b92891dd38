//! The modules of `console`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["failure", "form", "session", "text"], &[]),
    (&["address"], &["form"]),
    (&["visit"], &["failure", "form", "session"]),
    (&["layout"], &["failure", "form", "session", "visit"]),
    (&["entity_properties"], &["failure", "form", "text"]),
    (&["message"], &["text"]),
    (
        &[
            "browse",
            "confirmation",
            "dead_letters",
            "development",
            "entity",
            "entity_form",
            "entity_list",
            "filter_tester",
            "message_page",
            "overview",
            "router",
            "rules",
            "send",
            "session_list",
            "sign_in",
        ],
        &[
            "address",
            "entity_properties",
            "failure",
            "form",
            "layout",
            "message",
            "session",
            "text",
            "visit",
        ],
    ),
];
