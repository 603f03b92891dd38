//! The modules of `arm-template`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["placeholder"], &[]),
    (&["source"], &[]),
    (&["error"], &["placeholder"]),
    (&["expression"], &[]),
    (&["text_format"], &[]),
    (&["context"], &["placeholder"]),
    (&["function"], &["context", "placeholder", "text_format"]),
    // An expression may call a function of the template, or ask what a module will tell, whose parameters are
    // expressions.
    (
        &["lambda", "module", "outputs", "parameters", "reference", "scope", "user_function"],
        &["context", "error", "expression", "function", "placeholder"],
    ),
    // Of nodes alone, which the expansion makes.
    (
        &["order", "resources"],
        &[
            "context",
            "error",
            "function",
            "module",
            "outputs",
            "parameters",
            "placeholder",
            "scope",
        ],
    ),
];
