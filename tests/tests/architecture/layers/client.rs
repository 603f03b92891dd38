//! The modules of `client`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["api"], &[]),
    (&["delivery"], &["lib"]),
    (&["error"], &["lib"]),
    (&["proof"], &["error"]),
    (&["link"], &["error", "proof"]),
    (&["message"], &["lib"]),
    (&["options"], &["lib"]),
    (&["nodes"], &["api", "error", "options", "proof"]),
    (&["health"], &["error", "nodes", "options", "proof"]),
    (&["route"], &["error", "lib", "nodes"]),
    (&["calls"], &["error", "lib", "nodes", "route"]),
    (&["receive_stream"], &["calls", "delivery", "error", "lib", "link", "options"]),
    (&["receiver"], &["calls", "delivery", "error", "lib", "options", "receive_stream"]),
    (&["send_stream"], &["calls", "error", "lib", "link", "options"]),
    (&["sender"], &["calls", "error", "message", "options", "send_stream"]),
    (
        &["client"],
        &["calls", "delivery", "error", "lib", "message", "nodes", "options", "receiver", "sender"],
    ),
    (&["backups"], &["calls", "client", "error", "lib", "nodes"]),
    (&["connections"], &["calls", "client", "error", "lib", "nodes"]),
    (&["entities"], &["calls", "client", "error", "lib", "nodes"]),
    (&["events"], &["calls", "client", "error", "lib", "nodes"]),
    (&["faults"], &["calls", "client", "error", "lib", "nodes"]),
    (&["history"], &["calls", "client", "error", "lib", "nodes"]),
    (&["namespaces"], &["calls", "client", "error", "lib", "nodes"]),
    (
        &["session"],
        &["calls", "client", "delivery", "error", "lib", "options", "receive_stream", "receiver"],
    ),
    (&["sessions"], &["calls", "client", "delivery", "error", "lib", "nodes"]),
    (&["support"], &["calls", "client", "error", "lib", "nodes"]),
    (&["topics"], &["calls", "client", "error", "lib", "nodes"]),
    (&["transaction"], &["calls", "client", "delivery", "error", "lib", "message", "nodes"]),
];
