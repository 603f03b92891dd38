//! What a connection owes the node's ledger: what it has is told there once in a turn, and what its client asks
//! for is charged to the key that was proven on it first.

use amqp_protocol::codec::Error;
use amqp_protocol::engine::Connection;
use auth::Principal;
use domain::Namespace;
use limits::{Exceeded, Party, Slot, Usage};

use super::backlog::Backlog;
use super::failure;

#[derive(Default)]
pub(super) struct Dues {
    /// One that is only told why it ends has nothing.
    usage: Option<Usage>,
    surplus: Option<Exceeded>,
}

impl Dues {
    /// Without a place: of a connection that is only told why it ends.
    pub fn new(slot: Option<Slot>) -> Dues {
        Dues { usage: slot.map(Usage::new), surplus: None }
    }

    /// The place of the connection.
    pub fn slot(&self) -> Option<&Slot> {
        self.usage.as_ref().map(Usage::slot)
    }

    /// Whose connection it is, once that is known.
    pub fn party(&self) -> Option<&Party> {
        self.usage.as_ref().and_then(Usage::party)
    }

    /// Counts the connection for who has proven something on it, if nobody did before.
    pub fn belong(&mut self, principal: Option<&Principal>, namespace: &Namespace) {
        let usage = self.usage.as_mut().filter(|usage| usage.party().is_none());
        let Some((usage, principal)) = usage.zip(principal) else { return };
        match usage.slot().party(principal, namespace.as_str()) {
            Ok(party) => usage.belong(party),
            Err(exceeded) => self.surplus = Some(exceeded),
        }
    }

    /// Why the connection is one too many of its key, if it just became that.
    pub fn take_surplus(&mut self) -> Option<Exceeded> {
        self.surplus.take()
    }

    /// Tells the ledger what the connection has. `unstored`: beside what the engine counts.
    pub fn tell(&mut self, engine: &Connection, unstored: &Backlog) {
        let Some(usage) = &mut self.usage else { return };
        let ((links, sessions), refused) = (engine.held(), engine.refused());
        usage.set_links(links, sessions);
        usage.set_refused(refused.links, refused.sessions);
        usage.set_bytes(engine.incoming_bytes() + unstored.bytes() as u64);
    }

    /// Whether so many messages may come now.
    ///
    /// # Errors
    /// What their client is told.
    pub fn charge(&self, messages: usize) -> Result<(), Error> {
        let Some(party) = self.party() else { return Ok(()) };
        let asked = party.ask(messages.max(1) as u64).and_then(|()| party.has_room());
        asked.map_err(|exceeded| failure::exceeded(&exceeded, ""))
    }

    /// So many messages went to the client.
    pub fn deliver(&self, messages: usize) {
        if let Some(party) = self.party() {
            party.deliver(messages as u64);
        }
    }

    /// Whether a client may try to prove who it is.
    ///
    /// # Errors
    /// Its address asks for too much.
    pub fn charge_stranger(&self) -> Result<(), Exceeded> {
        self.usage.as_ref().map_or(Ok(()), |usage| usage.slot().ask(1))
    }
}
