//! The modules of `wire`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["error"], &[]),
    (&["codec"], &["error"]),
    (&["authorization"], &["codec", "error"]),
    (&["key"], &["error"]),
    (&["description"], &["codec"]),
    (&["forward"], &["codec"]),
    (&["identity"], &["codec", "error"]),
    (&["intern"], &["codec", "error"]),
    (&["history"], &["lib"]),
    (&["native"], &["lib"]),
    (&["content"], &["error", "lib", "native"]),
    (&["outcome"], &["codec"]),
    (&["property"], &["codec", "error"]),
    (&["row"], &["codec", "error"]),
    (&["command"], &["authorization", "codec", "error", "key", "row"]),
    (&["session"], &["codec", "error"]),
    (&["topic"], &["codec", "error"]),
    (&["transaction"], &["codec", "error", "outcome"]),
];
