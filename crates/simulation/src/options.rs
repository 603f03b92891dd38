//! What kind of life a simulated cluster has.

/// Sizes and odds. The defaults are what the integration test runs.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Steps of trouble; then faults end and the cluster is given time to settle.
    pub ticks: u32,
    pub groups: u16,
    /// Nodes; each holds a replica of every group.
    pub nodes: u8,
    pub queues_per_group: u8,
    pub clients_per_group: u8,
    /// Odds in a thousand, per tick.
    pub crash: u32,
    pub step_down: u32,
    /// Odds in a thousand, per packet or proposal.
    pub packet_lost: u32,
    pub proposal_dropped: u32,
    /// Odds in a thousand, per request: sent again although nothing went wrong.
    pub repeat: u32,
    /// Furthest any node's clock is off either way, ms (`clock.offset_max`).
    pub clock_offset_ms_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ticks: 200,
            groups: 2,
            nodes: 3,
            queues_per_group: 3,
            clients_per_group: 5,
            crash: 6,
            step_down: 6,
            packet_lost: 30,
            proposal_dropped: 20,
            repeat: 15,
            clock_offset_ms_max: 500,
        }
    }
}
