//! The modules of `auth`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["cluster_uri"], &[]),
    (&["certified"], &["cluster_uri"]),
    (&["join_token"], &[]),
    (&["path"], &[]),
    (&["principal"], &[]),
    (&["right"], &[]),
    (&["key"], &["path", "principal", "right"]),
    (&["grant"], &["key", "path", "principal", "right"]),
    (&["token"], &["grant", "key", "path"]),
    (&["guesses"], &["token"]),
    (&["offer"], &["certified", "token"]),
    (
        &["access"],
        &["certified", "grant", "guesses", "key", "offer", "path", "principal", "right", "token"],
    ),
];
