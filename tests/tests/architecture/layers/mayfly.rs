//! The modules of `mayfly`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["input"], &[]),
    (&["terminal"], &[]),
    (&["connect"], &["input", "terminal"]),
    (&["commands"], &["connect", "input", "terminal"]),
    (&["serve"], &["input", "terminal"]),
    (&["up"], &["input", "serve", "terminal"]),
    (&["demo"], &["connect", "input", "terminal", "up"]),
    (&["cli"], &["commands", "demo", "serve", "terminal", "up"]),
];
