//! The modules of `definitions`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["duration"], &[]),
    (&["place"], &[]),
    (&["problem"], &[]),
    (&["node"], &[]),
    (&["scalar"], &["node"]),
    (&["rule"], &["node", "scalar"]),
    (&["word"], &["duration", "scalar"]),
    (&["step"], &["word"]),
    (&["definition"], &["step"]),
    (&["document"], &["definition", "duration", "node", "problem", "rule", "word"]),
    (&["emulator"], &["definition", "document", "duration", "problem"]),
    (
        &["azure"],
        &[
            "definition",
            "document",
            "duration",
            "node",
            "problem",
            "rule",
            "scalar",
            "step",
            "word",
        ],
    ),
    (&["format"], &["azure", "definition", "document", "emulator", "problem"]),
    (&["validity"], &["definition", "problem", "step"]),
    (&["difference"], &["definition", "problem", "rule", "step", "validity", "word"]),
    (&["order"], &[]),
    (
        &["plan"],
        &["definition", "difference", "order", "problem", "rule", "step", "validity", "word"],
    ),
    (&["section"], &["definition", "document", "plan", "problem"]),
];
