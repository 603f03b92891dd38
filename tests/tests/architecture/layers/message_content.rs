//! The modules of `message-content`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["annotation"], &[]),
    (&["batch"], &[]),
    (&["lifetime"], &[]),
    (&["message_id"], &[]),
    (&["ingest"], &["annotation", "batch", "lifetime", "message_id"]),
    (&["plain"], &[]),
    (&["user_property"], &[]),
    (&["overlay"], &["user_property"]),
    (&["deliver"], &["annotation", "overlay"]),
    (&["neutral"], &["annotation", "deliver", "lifetime", "message_id", "user_property"]),
    (&["native"], &["neutral"]),
    (&["forward"], &["deliver", "ingest", "native"]),
];
