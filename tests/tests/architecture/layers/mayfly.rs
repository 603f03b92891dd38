//! The modules of `mayfly`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["input"], &[]),
    (&["terminal"], &[]),
    (&["files"], &[]),
    (&["arguments"], &[]),
    (&["authority"], &[]),
    (&["interruption"], &["terminal"]),
    (&["connect"], &["files", "input", "terminal"]),
    (&["topology"], &[]),
    (&["emulator"], &["terminal", "topology"]),
    (&["serve"], &["connect", "emulator", "files", "input", "terminal"]),
    (
        &["commands"],
        &[
            "authority",
            "connect",
            "files",
            "input",
            "interruption",
            "serve",
            "terminal",
            "topology",
        ],
    ),
    (&["up"], &["authority", "emulator", "files", "serve", "terminal"]),
    (&["demo"], &["connect", "input", "terminal", "up"]),
    (&["cli"], &["commands", "demo", "serve", "terminal", "up"]),
];
