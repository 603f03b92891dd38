//! What a peer may cost. Every number that keeps one connection from harming the others is here.

/// Bounds on what one connection may send, hold open and make this process remember. All are checked
/// before memory is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Deepest nesting of a value: a list in a list is two. Capped at [`Limits::DEPTH_CAP`], since
    /// decoding recurses this far. Default 16.
    pub depth_max: u8,
    /// Most values in one decoded map, list or array, counted through all its levels. Default 16,384.
    pub values_max: u32,
    /// Largest frame taken, announced in `open` (QUOTA-31). At least 512. Default 262,144.
    pub frame_bytes_max: u32,
    /// Largest message or batch taken on a link that announced no other limit (QUOTA-5, QUOTA-6).
    /// Default 1 MiB.
    pub message_bytes_max: u64,
    /// Greatest channel number, announced in `open`; one session has one channel. Default 4,999.
    pub channel_max: u16,
    /// Greatest handle number, announced in `begin`; one link has one handle. Default 1,023.
    pub handle_max: u32,
    /// Most links of one connection, over all its sessions. Default 5,000.
    pub links_max: usize,
    /// Most sessions of one connection. Default 5,000.
    pub sessions_max: usize,
    /// Most bytes that are kept of one attach for as long as its link lasts, as it is in memory and not
    /// as it was sent. A link that asks with more is refused. Default 64 KiB.
    pub attach_bytes_max: usize,
    /// The same of all links of a connection together. Default 16 MiB.
    pub attaches_bytes_max: usize,
    /// Most transfer frames a peer may send in one session before it hears a new window. It is
    /// announced anew when half of it is used. Default 5,000.
    pub incoming_window: u32,
    /// Most deliveries of one connection that wait for this side's verdict: beyond it nothing more is
    /// read, which is how TCP slows down a peer that ignores credit. Default 8,000.
    pub incoming_unsettled_max: u32,
    /// Most bytes of such deliveries and of those still arriving. Default 32 MiB.
    pub incoming_bytes_max: u64,
    /// Most deliveries of one session that were sent and that the peer has not settled. Default 8,000.
    pub outgoing_unsettled_max: usize,
    /// Bytes that may wait to be written. Beyond it nothing is read and nothing is sent, so a peer
    /// that never reads is not remembered for. Default 1 MiB.
    pub output_bytes_max: usize,
    /// Announced in `open`; a peer silent for twice as long is closed (CONN-11). Default 120,000 ms.
    pub idle_ms: u32,
    /// Within this a connection must have opened; a slow header or login counts. Default 20,000 ms.
    pub open_ms: u32,
    /// Within this a peer must have taken some of what waits to be written. Default 60,000 ms.
    pub stall_ms: u32,
    /// An outcome that is not accepted is written no sooner than this after what it answers came
    /// (SETTLE-14): 0 writes it with the next flush. Default 0 ms.
    pub outcome_delay_ms: u32,
}

impl Limits {
    /// No setting allows deeper recursion than this.
    pub const DEPTH_CAP: u8 = 64;
    /// The smallest frame limit the standard allows (AMQP 1.0, part 2, 2.4.1).
    pub const FRAME_BYTES_MIN: u32 = 512;

    /// Of these, what a peer has that has not proved who it is: enough to bring a token of 8 KiB, and
    /// no more than 64 KiB in all (CONN-25). What was announced stays as it is.
    #[must_use]
    pub fn before_proof(&self) -> Limits {
        const FRAME_BYTES: u32 = 10 << 10;
        const KEPT_BYTES: usize = 8 << 10;
        Limits {
            frame_bytes_max: self.frame_bytes_max.min(FRAME_BYTES),
            message_bytes_max: self.message_bytes_max.min(FRAME_BYTES.into()),
            links_max: self.links_max.min(16),
            sessions_max: self.sessions_max.min(8),
            attach_bytes_max: self.attach_bytes_max.min(KEPT_BYTES),
            attaches_bytes_max: self.attaches_bytes_max.min(KEPT_BYTES * 2),
            incoming_unsettled_max: self.incoming_unsettled_max.min(16),
            incoming_bytes_max: self.incoming_bytes_max.min(FRAME_BYTES.into()),
            outgoing_unsettled_max: self.outgoing_unsettled_max.min(16),
            output_bytes_max: self.output_bytes_max.min(KEPT_BYTES),
            ..self.clone()
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            depth_max: 16,
            values_max: 16_384,
            frame_bytes_max: 262_144,
            message_bytes_max: 1 << 20,
            channel_max: 4_999,
            handle_max: 1_023,
            links_max: 5_000,
            sessions_max: 5_000,
            attach_bytes_max: 64 << 10,
            attaches_bytes_max: 16 << 20,
            incoming_window: 5_000,
            incoming_unsettled_max: 8_000,
            incoming_bytes_max: 32 << 20,
            outgoing_unsettled_max: 8_000,
            output_bytes_max: 1 << 20,
            idle_ms: 120_000,
            open_ms: 20_000,
            stall_ms: 60_000,
            outcome_delay_ms: 0,
        }
    }
}
