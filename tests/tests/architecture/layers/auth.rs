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
    (&["web_token"], &[]),
    (&["token"], &["grant", "key", "path", "web_token"]),
    (&["guesses"], &["token"]),
    (&["issuer"], &["grant", "key", "path", "principal", "right", "token", "web_token"]),
    (&["offer"], &["certified", "token"]),
    (
        &["access"],
        &[
            "certified",
            "grant",
            "guesses",
            "issuer",
            "key",
            "offer",
            "path",
            "principal",
            "right",
            "token",
            "web_token",
        ],
    ),
];
