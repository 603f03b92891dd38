//! The modules of `grpc`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["api"], &[]),
    (&["connection"], &[]),
    (&["status"], &[]),
    (&["cluster"], &["api", "status"]),
    (&["connection_limit"], &["connection", "status"]),
    (&["authenticator"], &["connection_limit"]),
    (&["entities"], &["api", "status"]),
    (
        &["messaging", "receive_stream", "send_stream", "server", "sessions", "transact_stream"],
        &[
            "api",
            "authenticator",
            "cluster",
            "connection",
            "connection_limit",
            "entities",
            "status",
        ],
    ),
];
