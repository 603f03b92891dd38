//! The modules of `amqp-protocol`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["condition"], &[]),
    (&["limits"], &[]),
    (&["codec"], &["limits"]),
    (&["engine"], &["codec", "condition", "limits"]),
    (&["message"], &["codec", "limits"]),
    (&["request"], &["codec", "limits", "message"]),
];
