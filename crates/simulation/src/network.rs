//! Packets between clients, their edges and leaders: late, lost, twice, overtaking one another.

use std::collections::BTreeMap;

use domain::{Command, EntityId, HeldLock, Outcome, QueueId, ReceiverId, SessionToken, Timestamp};

use crate::Options;
use crate::client::Client;
use crate::group::Scene;
use crate::leader::{Answer, Reply};
use crate::random::Random;

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct Request {
    pub client: usize,
    pub producer: u64,
    pub serial: u64,
    pub command: Command,
}

/// What travels.
#[derive(Clone, Debug)]
pub enum Packet {
    Request(Request),
    Reply { client: usize, producer: u64, serial: u64, outcome: Outcome },
    Delivered { receiver: ReceiverId, queue: QueueId, lock: HeldLock },
    Accepted { receiver: ReceiverId, entity: EntityId, token: SessionToken, until: Timestamp },
}

/// A packet, and the edge it goes through.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub packet: Packet,
    /// A node, and which of its starts.
    pub edge: (usize, u64),
    /// The node that is asked: the edge, or who it takes for the leader.
    pub to: usize,
    /// How often it was passed on.
    pub hops: u32,
    pub sent_at: u64,
}

/// Packets under way, by arrival.
#[derive(Default)]
pub struct Network {
    parcels: BTreeMap<(u64, u64), Parcel>,
    sent: u64,
}

/// A connection does not outlive a minute of silence: what is older never arrives, so a request
/// cannot turn up after its producer was forgotten (SEND-8).
pub const AGE_MS_MAX: u64 = 60_000;

impl Network {
    /// Sends a packet, unless it is lost; it may arrive twice.
    pub fn send(&mut self, parcel: Parcel, now: u64, lost: u32, random: &mut Random) {
        if random.chance(lost) {
            return;
        }
        if random.chance(lost / 2) {
            self.put(parcel.clone(), now + random.between(1, 2_000));
        }
        let delay = if random.chance(50) { random.between(50, 900) } else { random.below(20) };
        self.put(parcel, now + delay);
    }

    /// Sends a leader's answers to the edges of whom they are for.
    pub fn answer(
        &mut self,
        answers: Vec<Answer>,
        clients: &[Client],
        scene: Scene<'_>,
        options: &Options,
        random: &mut Random,
    ) {
        let lost = if scene.peace { 0 } else { options.packet_lost };
        for Answer { reply, outcome } in answers {
            let (client, packets) = match reply {
                Reply::Client { client, producer, serial } => {
                    (client, vec![Packet::Reply { client, producer, serial, outcome }])
                }
                Reply::Acquire { receiver, queue } => {
                    let Outcome::Acquired { deliveries, .. } = outcome else { continue };
                    let locks = deliveries.into_iter().filter_map(|delivery| delivery.lock);
                    let packets = locks.map(|lock| Packet::Delivered { receiver, queue, lock });
                    (receiver.node as usize, packets.collect())
                }
                Reply::Fire
                | Reply::Operator
                | Reply::Nobody
                | Reply::Pack { .. }
                | Reply::Arrive(_)
                | Reply::Shipped { .. } => continue,
                Reply::Accept { receiver, entity } => {
                    let Outcome::Accepted { token, until } = outcome else { continue };
                    let packet = Packet::Accepted { receiver, entity, token, until };
                    (receiver.node as usize, vec![packet])
                }
            };
            let Some(edge) = clients[client].edge else { continue };
            for packet in packets {
                let parcel = Parcel { packet, edge, to: edge.0, hops: 0, sent_at: scene.now };
                self.send(parcel, scene.now, lost, random);
            }
        }
    }

    /// The next packet that has arrived.
    pub fn receive(&mut self, now: u64) -> Option<Parcel> {
        loop {
            let first = self.parcels.first_entry()?;
            if first.key().0 > now {
                return None;
            }
            let parcel = first.remove();
            if now - parcel.sent_at <= AGE_MS_MAX {
                return Some(parcel);
            }
        }
    }

    fn put(&mut self, parcel: Parcel, at: u64) {
        self.sent += 1;
        self.parcels.insert((at, self.sent), parcel);
    }
}
