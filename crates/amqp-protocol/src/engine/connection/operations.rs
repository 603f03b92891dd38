//! What the owner of a connection may ask of it. Nothing here fails for what the peer did: a session or
//! link that is gone is named so, and that is all.

use super::{Connection, DispositionHandler, Phase};
use crate::codec::{Attach, Close, DeliveryState, Error};
use crate::condition;
use crate::engine::event::{DeliveryId, LinkId, SessionId};
use crate::engine::outgoing::{Gone, Outgoing, SendError};
use crate::engine::{handshake, outgoing};

impl Connection {
    /// Decides on an [`crate::engine::Event::Login`]. A refused peer is told and the connection is over.
    pub fn login(&mut self, accepted: bool) {
        let Phase::Handshake(handshake) = &mut self.phase else { return };
        match (handshake.awaits_verdict(), accepted) {
            (false, _) => {}
            (true, true) => handshake.admit(&mut self.frames),
            (true, false) => {
                let error = handshake::refuse(&mut self.frames);
                self.fail(error);
            }
        }
    }

    /// Writes what was gathered since the last flush. Call it once per turn, before writing.
    pub fn flush(&mut self) {
        self.sessions().flush();
        self.credits().flush();
        self.see_overflow();
    }

    /// As client: begins a session. `None` if there are as many as the peer allows.
    pub fn begin(&mut self) -> Option<SessionId> {
        self.sessions().begin()
    }

    /// Ends a session and all its links.
    pub fn end(&mut self, session: SessionId, error: Option<Error>) -> Result<(), Gone> {
        self.sessions().end(session, error)
    }

    /// Ends the connection; [`crate::engine::Event::Closed`] follows once the peer has answered, or has
    /// not for a while.
    pub fn close(&mut self, error: Option<Error>) {
        self.see_overflow();
        match self.phase {
            Phase::Opened => {
                self.sessions().flush_held();
                self.flush();
                self.frames.write_reason(0, Close { error });
                self.phase = Phase::CloseSent;
                self.timing.closing(self.frames.now);
            }
            Phase::CloseSent | Phase::Finished => {}
            Phase::Handshake(_) | Phase::AwaitOpen { .. } => {
                let why = "the connection was given up";
                let given_up = || Error::new(condition::CONNECTION_FORCED, why);
                self.fail(error.unwrap_or_else(given_up));
            }
        }
    }

    /// Asks for a link. Name, role, modes and termini are the caller's, the handle is not.
    pub fn attach(&mut self, session: SessionId, attach: Attach) -> Result<LinkId, Gone> {
        self.links().attach(session, attach)
    }

    /// Accepts a link the peer asked for, with [`Attach::reply`] as the answer, changed where needed
    /// (LINK-4).
    pub fn accept(&mut self, link: LinkId, reply: Attach) -> Result<(), Gone> {
        self.links().accept(link, reply)
    }

    /// Refuses a link: an attach whose terminus under this side's control is null, then a detach with
    /// the reason (LINK-6).
    pub fn refuse(&mut self, link: LinkId, reply: Attach, error: Error) -> Result<(), Gone> {
        self.links().refuse(link, reply, error)
    }

    /// Ends a link for good. Verdicts gathered so far are written first; those that come later are
    /// for nobody.
    pub fn detach(&mut self, link: LinkId, error: Option<Error>) -> Result<(), Gone> {
        self.links().detach(link, error)
    }

    /// As receiver: lets the peer send, so that credit and deliveries without a verdict together are at
    /// most `window`. It is topped up at flushes, in eighths; 0 takes back what was not used.
    pub fn grant(&mut self, link: LinkId, window: u32) -> Result<(), Gone> {
        self.credits().grant(link, window)
    }

    /// As receiver: asks for what the peer has, up to the credit it was given, and the rest of the
    /// credit back. No more is granted by itself.
    pub fn drain(&mut self, link: LinkId) -> Result<(), Gone> {
        self.credits().drain(link)
    }

    /// As sender: what was there is sent; the rest of the credit goes back (FLOW-8). Nothing happens
    /// if the receiver does not drain any more.
    pub fn drained(&mut self, link: LinkId) -> Result<(), Gone> {
        self.credits().drained(link)
    }

    /// As sender: credit that is left.
    pub fn credit(&self, link: LinkId) -> u32 {
        self.registry.link(link).map_or(0, |link| link.credit)
    }

    /// As sender: how many messages can be sent now without keeping more than the limits allow.
    pub fn room(&self, link: LinkId) -> u32 {
        outgoing::room(&self.allowance, &self.registry, &self.frames, link)
    }

    /// Sends a message. Its slices are kept until they are written, not copied.
    ///
    /// # Errors
    /// [`SendError`], and then nothing was sent.
    pub fn send(&mut self, link: LinkId, outgoing: &Outgoing) -> Result<DeliveryId, SendError> {
        self.sending().send(link, outgoing)
    }

    /// The verdict on a delivery that was received, exactly one for each that was not settled by its
    /// sender. Written at the next flush, together with its neighbours.
    pub fn settle(&mut self, delivery: DeliveryId, state: DeliveryState) -> Result<(), Gone> {
        self.dispositions().settle(delivery, state)
    }

    /// As receiver: a verdict that the sender still has to confirm (the SDKs' way, SETTLE-4).
    /// [`crate::engine::Event::Settled`] is the answer. Written at the next flush, together with its
    /// neighbours.
    pub fn propose(&mut self, delivery: DeliveryId, state: DeliveryState) -> Result<(), Gone> {
        self.dispositions().propose(delivery, state)
    }

    /// The answer to a receiver's verdict on what was sent (SETTLE-4, SETTLE-5). Written at the next
    /// flush.
    pub fn answer(&mut self, delivery: DeliveryId, state: DeliveryState) -> Result<(), Gone> {
        self.dispositions().answer(delivery, state)
    }

    /// As [`Connection::answer`], of a verdict within a transaction: the delivery is not settled, so the
    /// receiver may give another verdict on it once the transaction has ended (COORD-6).
    pub fn answer_provisionally(
        &mut self,
        delivery: DeliveryId,
        state: DeliveryState,
    ) -> Result<(), Gone> {
        self.dispositions().answer_provisionally(delivery, state)
    }

    fn dispositions(&mut self) -> DispositionHandler<'_> {
        let outcome_delay_ms = self.config.limits.outcome_delay_ms;
        let Connection { registry, frames, .. } = self;
        DispositionHandler { outcome_delay_ms, registry, frames }
    }
}
