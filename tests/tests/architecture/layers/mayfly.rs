//! The modules of `mayfly`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["input"], &[]),
    (&["terminal"], &[]),
    (&["connect"], &["input", "terminal"]),
    (&["commands"], &["connect", "input", "terminal"]),
    (&["emulator"], &["input", "terminal"]),
    (&["serve"], &["emulator", "input", "terminal"]),
    (&["up"], &["emulator", "serve", "terminal"]),
    (&["demo"], &["connect", "input", "terminal", "up"]),
    (&["cli"], &["commands", "demo", "serve", "terminal", "up"]),
];
