//! The modules of `grpc`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["api"], &[]),
    (&["connection"], &[]),
    (&["status"], &[]),
    (&["admission"], &["connection"]),
    (&["cluster"], &["api", "status"]),
    (&["connection_limit"], &["connection", "status"]),
    (&["authenticator"], &["connection_limit"]),
    (&["entities"], &["api", "status"]),
    (
        &["messaging", "receive_stream", "send_stream", "server", "sessions", "transact_stream"],
        &[
            "admission",
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
