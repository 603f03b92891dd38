//! The modules of `amqp`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["condition"], &[]),
    (&["cbs"], &["condition"]),
    (&["link_terms"], &[]),
    (&["management"], &["condition"]),
    (&["selection"], &["link_terms"]),
    (&["server"], &["cbs", "condition", "lib", "link_terms", "management", "selection"]),
];
