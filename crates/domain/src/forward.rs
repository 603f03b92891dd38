//! Auto-forwarding (FWD): what moves between groups, and what each side remembers so that nothing is
//! moved twice or lost.
//!
//! What waits to be forwarded is what could be received: setting, changing and removing a
//! destination moves no row (FWD-15). The source's group packs available messages, in order, into a
//! numbered *shipment* ([`Ship`]), whose messages are set aside like locked ones. Its leader brings
//! the contents to the destination's group ([`Arrive`]), which stores them and keeps, per source,
//! what came of the last shipments: a repeat is answered, not done again. With the answer the source
//! gives the messages up, and dead-letters those refused, or, out of a dead-letter queue, parks them
//! to be shipped again ([`Shipped`]). A dead-letter queue has one shipment under way, of which the
//! destination takes what comes before the first refusal, and nothing is shipped past what is parked:
//! so one dead letter that cannot be taken holds those behind it, and none overtakes another (FWD-5).
//!
//! What a client sends to one entity through another ([`crate::SendVia`], FWD-14) is a shipment from
//! the start, out of the transfer queue of the entity between, and is moved by the same means. Each
//! destination's shipments wait for one another only.

use std::collections::BTreeMap;

use crate::{
    Counts, EntityId, EntityState, GroupId, NewMessage, QueueId, QueueProperties, Refusal,
    SequenceNumber, Span, SubQueue, Timestamp,
};

/// FWD-7, QUOTA-27.
pub const HOPS_MAX: u32 = 4;
/// Most messages of one shipment: giving them up, or dead-lettering them, is one command.
pub const SHIPMENT_MESSAGES_MAX: u32 = 512;
/// Most messages on their way out of one transfer queue: each is in its leader's memory.
pub const TRANSFERS_MAX: u64 = 65_536;
/// What came of a source's last shipment is kept this long after it, and for as long as the source
/// exists. No request is under way that long.
pub const ARRIVALS_KEPT: Span = Span::from_secs(3600);
/// What a subqueue that is forwarded does not let its receivers do (FWD-3).
pub(crate) const FORWARDED: &str =
    "its messages are forwarded; receive them at the destination, or take the forwarding off";
/// As [`FORWARDED`], of dead letters, some of which may be stuck (FWD-7).
pub(crate) const DEAD_LETTERS_FORWARDED: &str = "its dead letters are forwarded, except those that \
     took 4 forwards already (MaxTransferHopCountExceeded): these stay here, where a peek shows them; \
     to receive them, take ForwardDeadLetteredMessagesTo off";

/// What a forwarded message brings along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Travel {
    /// The number first assigned, at original submission (SEQ-8).
    pub enqueued_sequence: SequenceNumber,
    /// Forwards so far (FWD-7).
    pub hops: u32,
    /// The entity out of whose dead-letter queue it was forwarded (DLQ-12).
    pub dead_letter_source: Option<String>,
}

/// Where a shipment goes: that entity, for ever, whatever has its name meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub entity: EntityId,
    pub group: GroupId,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ForwardCommand {
    Ship(Ship),
    /// As [`ForwardCommand::ArriveBehind`], of a source whose group has had no cut.
    Arrive(Arrive),
    /// The source's group has had this cut of the cluster when it said so. The destination's takes nothing in
    /// from before a cut that it has had itself, nor from behind one that it has not: so what is under way
    /// between two groups is in a cut of both exactly once.
    ArriveBehind {
        cut: u64,
        arrive: Arrive,
    },
    Shipped(Shipped),
    Unpark(Unpark),
    ForgetArrivals(ForgetArrivals),
}

/// To the source: sets messages aside for a destination. A hint, like `Fire`: without effect unless
/// the queue is forwarded to that name now, and not suspended (FWD-13).
#[derive(Clone, Debug, PartialEq)]
pub struct Ship {
    pub queue: QueueId,
    /// The name the queue forwards to, in whatever case.
    pub to: String,
    /// What has that name; absent: nothing has (FWD-8).
    pub destination: Option<Destination>,
    /// At most [`SHIPMENT_MESSAGES_MAX`].
    pub count_max: u32,
    /// Stops after the message that reaches this many bytes.
    pub bytes_max: u32,
    /// Of a dead-letter queue: takes what was refused before (FWD-9).
    pub again: bool,
}

/// To the source: releases what is set aside of a queue that is forwarded no more (FWD-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpark {
    pub queue: QueueId,
    /// About how many messages, itself at most [`SHIPMENT_MESSAGES_MAX`].
    pub count_max: u32,
}

/// To the destination: a shipment, or the rest of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrive {
    pub source: QueueId,
    /// Counts a source's shipments from 1.
    pub serial: u64,
    /// The line's shipments up to this one are settled at the source: nobody asks for them again.
    pub settled_to: u64,
    /// The shipment before it that is not settled; none if that is not above `settled_to`.
    pub follows: u64,
    pub destination: EntityId,
    /// Messages of the whole shipment, and how many of them come before the first one here.
    pub count: u32,
    pub skipped: u32,
    pub messages: Vec<Arriving>,
}

impl Arrive {
    /// From behind that cut of the source's group; 0: there was none.
    pub fn behind(self, cut: u64) -> ForwardCommand {
        match cut {
            0 => ForwardCommand::Arrive(self),
            cut => ForwardCommand::ArriveBehind { cut, arrive: self },
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arriving {
    /// As if sent by a client: what was laid over its content is part of it now.
    pub message: NewMessage,
    pub travel: Travel,
}

/// To the source: what came of a shipment. A repeat changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Shipped {
    pub queue: QueueId,
    pub serial: u64,
    pub refused: Vec<Refused>,
}

/// To a destination's group: the source is gone, so nothing will ask what came of its shipments.
/// Without effect while the last is younger than [`ARRIVALS_KEPT`]. That the destination is gone is
/// not enough: what was on its way to it may have arrived there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgetArrivals {
    pub source: QueueId,
    pub destination: EntityId,
}

/// Shipments of which each waits for those before it (FWD-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    pub queue: QueueId,
    /// Of a transfer queue: where to. A forwarded queue is one line, whatever its destination is.
    pub to: Option<EntityId>,
}

impl Line {
    /// That a shipment of a queue belongs to.
    pub fn of(queue: QueueId, destination: Destination) -> Line {
        let to = (queue.sub == SubQueue::Transfer).then_some(destination.entity);
        Line { queue, to }
    }
}

/// Messages of a shipment that the destination did not take, and why: what their dead-letter entry
/// says (FWD-8, FWD-10). Positions from `first` on, `count` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub first: u32,
    pub count: u32,
    pub reason: String,
    pub description: String,
}

/// Runs of positions, ascending.
pub(crate) fn refuse(refused: &mut Vec<Refused>, position: u32, reason: String, text: String) {
    match refused.last_mut() {
        Some(last)
            if last.first + last.count == position
                && last.reason == reason
                && last.description == text =>
        {
            last.count += 1;
        }
        _ => refused.push(Refused { first: position, count: 1, reason, description: text }),
    }
}

/// FWD-8: a refusal as a dead-letter reason: the name of the client's exception.
pub(crate) fn reason(refusal: &Refusal) -> String {
    let name = refusal.name();
    match name.ends_with("Exception") {
        true => name.to_owned(),
        false => format!("{name}Exception"),
    }
}

/// Messages set aside for a destination.
#[derive(Clone, Debug, PartialEq)]
pub struct ShipmentRow {
    pub destination: Destination,
    pub numbers: Vec<SequenceNumber>,
}

/// A source's shipments, as their destination knows them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArrivalRow {
    /// The last one that came.
    pub serial: u64,
    /// When.
    pub at: Timestamp,
    /// What came of those that may be asked for again.
    pub shipments: BTreeMap<u64, ArrivedShipment>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArrivedShipment {
    pub count: u32,
    /// How many of them were looked at; the others are still to come.
    pub done: u32,
    pub refused: Vec<Refused>,
}

/// What an entity knows of the forwarding of one of its subqueues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Shipments made so far.
    pub serial: u64,
    /// Messages in shipments that are not settled.
    pub in_transit: u64,
    /// Dead letters that the destination refused, and those behind them in their shipment, to be
    /// tried again (FWD-9).
    pub parked: u64,
    /// Dead letters that are not forwarded again (FWD-7).
    pub stuck: u64,
}

/// About a forwarded subqueue, for the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardEffect {
    /// As it now stands.
    Waiting { queue: QueueId, waiting: Waiting },
    /// A shipment is to be brought to its destination.
    Shipment { line: Line, serial: u64 },
    /// It is settled.
    Settled { line: Line, serial: u64 },
}

/// What a subqueue's forwarding has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Messages to be shipped for the first time; none while receiving is refused (FWD-13).
    pub ready: u64,
    /// Those to be shipped again; likewise.
    pub parked: u64,
    /// Those still set aside although nothing is forwarded any more: to be released.
    pub unwanted: u64,
}

impl QueueProperties {
    /// The name a subqueue's messages are forwarded to.
    pub fn forwards(&self, sub: SubQueue) -> Option<&str> {
        match sub {
            SubQueue::Main => self.forward_to.as_deref(),
            SubQueue::DeadLetter => self.forward_dead_letters_to.as_deref(),
            SubQueue::Transfer | SubQueue::TransferDeadLetter => None,
        }
    }

    /// Whether messages are kept by session. What forwards all of them hands them on one by one, with
    /// their session ids (FWD-1).
    pub fn keeps_sessions(&self) -> bool {
        self.requires_session && self.forward_to.is_none()
    }

    /// Whether any are (FWD-11).
    pub fn is_forwarding(&self) -> bool {
        self.forward_to.is_some() || self.forward_dead_letters_to.is_some()
    }

    /// For how long nobody has to use the entity until it is deleted: what it was told, or, while it
    /// forwards, never (FWD-11, IDLE-3).
    pub fn idle_window(&self) -> Span {
        match self.is_forwarding() {
            true => Span::MAX,
            false => self.auto_delete_on_idle,
        }
    }
}

impl EntityState {
    /// What is to be done for the forwarding of a subqueue.
    pub fn waiting(&self, properties: &QueueProperties, sub: SubQueue) -> Waiting {
        let Forwarding { parked, stuck, .. } = self.forwarding[sub as usize];
        match properties.forwards(sub) {
            None => Waiting { unwanted: parked + stuck, ..Waiting::default() },
            Some(_) if properties.status.refuses_receive() => Waiting::default(),
            Some(_) => Waiting { ready: self.available[sub as usize], parked, unwanted: 0 },
        }
    }

    /// FWD-12: what waits to be moved is told apart from what is active.
    pub fn told_counts(&self, properties: &QueueProperties) -> Counts {
        let main = SubQueue::Main as usize;
        let waits = match properties.forward_to {
            Some(_) => self.available[main],
            None => 0,
        };
        let forwarded = waits + self.forwarding[main].in_transit;
        Counts {
            transfer: self.counts.transfer + forwarded,
            active: self.counts.active - forwarded,
            ..self.counts
        }
    }
}
