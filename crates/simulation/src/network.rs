//! Packets between clients and leaders: late, lost, overtaking one another.

use std::collections::BTreeMap;

use domain::{Command, HeldLock, Outcome, QueueId, ReceiverId};

use crate::random::Random;

/// What travels.
#[derive(Clone, Debug)]
pub enum Packet {
    Request { client: usize, producer: u64, serial: u64, command: Command },
    Answer { client: usize, producer: u64, serial: u64, outcome: Outcome },
    Delivered { receiver: ReceiverId, queue: QueueId, lock: HeldLock },
}

/// Packets under way, by arrival.
#[derive(Default)]
pub struct Network {
    packets: BTreeMap<(u64, u64), (u64, Packet)>,
    sent: u64,
}

/// A connection does not outlive a minute of silence: what is older never arrives, so a request
/// cannot turn up after its producer was forgotten (SEND-8).
pub const AGE_MS_MAX: u64 = 60_000;

impl Network {
    /// Sends a packet, unless it is lost.
    pub fn send(&mut self, packet: Packet, now: u64, lost: u32, random: &mut Random) {
        if !random.chance(lost) {
            let delay = if random.chance(50) { random.between(50, 900) } else { random.below(20) };
            self.sent += 1;
            self.packets.insert((now + delay, self.sent), (now, packet));
        }
    }

    /// The next packet that has arrived.
    pub fn receive(&mut self, now: u64) -> Option<Packet> {
        loop {
            let first = self.packets.first_entry()?;
            if first.key().0 > now {
                return None;
            }
            let (sent_at, packet) = first.remove();
            if now - sent_at <= AGE_MS_MAX {
                return Some(packet);
            }
        }
    }
}
