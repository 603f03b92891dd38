//! Pacing. What `apply` reads comes from the log; these only bound what one entry is asked to do.

use domain::Span;

/// Bounds of what an engine asks for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Most messages all `Fire`s of one round may take together while deadlines are kept: bounds the
    /// time one entry takes to apply, and whoever sends meanwhile waits that long. Default 256.
    pub fire_count_max: u32,
    /// The same while rounds fall behind: each is twice the one before it, up to this. Larger ones
    /// cost less per message. Default 1024.
    pub fire_count_behind_max: u32,
    /// A round is behind if it found something this late and left more. Default 50 ms.
    pub fire_behind: Span,
    /// Most entities one round fires for; they share `fire_count_max`. Default 64.
    pub fire_entities_max: u32,
    /// Most locks in one `FireLocks`. Default 256.
    pub fire_locks_max: u32,
    /// Most messages one `Acquire` asks for. Default 512.
    pub acquire_count_max: u32,
    /// An `Acquire` stops after the message that reaches this many bytes. Default 1 MiB.
    pub acquire_bytes_max: u32,
    /// Most messages asked for and not yet answered, per queue. Default 8192.
    pub reserved_max: u32,
    /// Most shipments of a forwarded queue that are under way. Default 4.
    pub shipments_max: u32,
    /// Most shipments under way from a transfer queue to one destination. Default 32.
    pub transfers_max: u32,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            fire_count_max: 256,
            fire_count_behind_max: 1024,
            fire_behind: Span(50),
            fire_entities_max: 64,
            fire_locks_max: 256,
            acquire_count_max: 512,
            acquire_bytes_max: 1024 * 1024,
            reserved_max: 8192,
            shipments_max: 4,
            transfers_max: 32,
        }
    }
}
