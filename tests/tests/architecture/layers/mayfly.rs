//! The modules of `mayfly`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["input"], &[]),
    (&["terminal"], &[]),
    (&["files"], &[]),
    (&["arguments"], &[]),
    (&["authority"], &[]),
    (&["faults"], &["terminal"]),
    (&["interruption"], &[]),
    (&["connect"], &["files", "input", "terminal"]),
    (&["topology"], &[]),
    (&["emulator"], &["terminal", "topology"]),
    (&["serve"], &["connect", "emulator", "files", "input", "terminal"]),
    (
        &["commands"],
        &[
            "authority",
            "connect",
            "faults",
            "files",
            "input",
            "interruption",
            "serve",
            "terminal",
            "topology",
        ],
    ),
    (&["up"], &["authority", "emulator", "faults", "files", "serve", "terminal"]),
    (&["demo"], &["connect", "input", "terminal", "up"]),
    (&["cli"], &["commands", "demo", "serve", "terminal", "up"]),
];
