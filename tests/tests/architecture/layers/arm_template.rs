//! The modules of `arm-template`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["error"], &[]),
    (&["expression"], &[]),
    (&["placeholder"], &[]),
    (&["text_format"], &[]),
    (&["function"], &["placeholder", "text_format"]),
    (&["lambda", "scope"], &["error", "expression", "function", "placeholder"]),
    (&["parameters"], &["error", "function", "placeholder", "scope"]),
    (&["resources"], &["error", "function", "parameters", "placeholder", "scope"]),
];
