//! The modules of `backup`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["chunk"], &[]),
    (&["name", "error"], &["chunk"]),
    (&["key"], &["chunk", "error"]),
    (&["envelope"], &["error", "key"]),
    (&["location"], &["error"]),
    (&["store"], &["error", "location"]),
    (&["lock"], &["chunk", "error", "key", "store"]),
    (&["manifest"], &["chunk", "name"]),
    (
        &["repository"],
        &["chunk", "envelope", "error", "key", "location", "lock", "manifest", "name", "store"],
    ),
    (&["unfinished"], &["chunk", "envelope", "error", "manifest", "repository"]),
    (&["verification"], &["chunk", "error", "manifest", "repository"]),
    (
        &["suspects"],
        &["chunk", "envelope", "error", "key", "manifest", "repository", "verification"],
    ),
    (&["reader"], &["error", "manifest", "repository"]),
    (
        &["writer"],
        &[
            "chunk",
            "envelope",
            "error",
            "lock",
            "manifest",
            "name",
            "repository",
            "suspects",
            "unfinished",
        ],
    ),
    (&["retention"], &["manifest"]),
    (
        &["prune"],
        &[
            "chunk",
            "error",
            "lock",
            "manifest",
            "name",
            "repository",
            "retention",
            "suspects",
            "unfinished",
        ],
    ),
];
