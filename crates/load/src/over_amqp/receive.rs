//! Deliveries by credit, and verdicts on them.

use std::collections::VecDeque;
use std::time::Instant;

use amqp_protocol::codec::{
    Attach, DeliveryState, Error, Map, Modified, Outcome as Disposed, ReceiverSettleMode,
    SenderSettleMode, Value,
};
use amqp_protocol::engine::{Delivery, DeliveryId, Event};
use tokio::time::timeout_at;
use workload::Link;

use super::{AmqpTarget, broken, encode, outcome};
use crate::file::{Consumers, Mode};
use crate::link::{Arrival, Broken, Outcome, ReceiveLink, Turned, Verdict};
use crate::stamp::Stamp;

/// Names a session in a filter; null is the next that is free.
const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// A session is waited for this long at a time.
const SESSION_WAIT_MS: u32 = 5_000;
/// The broker does not know what it was asked for.
const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
/// No session was free.
const NO_SESSION: &str = "com.microsoft:timeout";
/// What is dead-lettered is rejected with it (SETTLE-7).
const DEAD_LETTER: &str = "com.microsoft:dead-letter";

/// Receives on a connection of its own.
pub struct AmqpReceive<T> {
    target: AmqpTarget,
    index: usize,
    spec: Consumers,
    /// The ends of lives and locks are of interest.
    reads_ends: bool,
    /// None: the next session has not come yet.
    link: Option<Link>,
    window: u32,
    /// The broker answers verdicts; others settle at once (AMQP 1.0, part 2, 2.6.12).
    is_answered: bool,
    /// Came, and was not asked for yet.
    came: VecDeque<Delivery>,
    settling: VecDeque<(DeliveryId, Verdict, T)>,
    done: Vec<(T, Outcome)>,
}

impl<T: Send> AmqpReceive<T> {
    pub async fn open(
        target: &AmqpTarget,
        index: usize,
        spec: &Consumers,
        reads_ends: bool,
    ) -> Result<AmqpReceive<T>, Broken> {
        let window = spec.prefetch;
        let mut receive = AmqpReceive {
            target: target.clone(),
            index,
            spec: spec.clone(),
            reads_ends,
            link: None,
            window,
            is_answered: false,
            came: VecDeque::new(),
            settling: VecDeque::new(),
            done: Vec::new(),
        };
        if !spec.sessions {
            receive.attach().await?;
        }
        Ok(receive)
    }

    async fn attach(&mut self) -> Result<(), Broken> {
        let answered = attach(&self.target, self.index, &self.spec, ReceiverSettleMode::Second);
        let link = match answered.await {
            // Whoever does not answer verdicts says so, as RabbitMQ does.
            Err(broken) if broken.0.contains(NOT_IMPLEMENTED) => {
                attach(&self.target, self.index, &self.spec, ReceiverSettleMode::First).await
            }
            link => link,
        };
        let mut link = link?;
        self.is_answered = link.answer().rcv_settle_mode == ReceiverSettleMode::Second;
        link.grant(self.window).map_err(broken)?;
        self.link = Some(link);
        Ok(())
    }

    fn link(&mut self) -> Result<&mut Link, Broken> {
        self.link.as_mut().ok_or_else(|| Broken("the session is over".to_owned()))
    }

    fn arrival(&self, delivery: Delivery) -> Arrival<DeliveryId> {
        // What is too large for this side has no stamp that could be read.
        let payload = delivery.payload.unwrap_or_default();
        let (expires_at_ms, locked_until_ms) = match self.reads_ends {
            true => encode::ends(&payload),
            false => (None, None),
        };
        let handle = (!delivery.settled).then_some(delivery.id);
        Arrival { handle, stamp: Stamp::read(&payload), expires_at_ms, locked_until_ms }
    }

    fn answered(&mut self, id: DeliveryId) -> Option<(Verdict, T)> {
        // Answers come in about the order they were asked for.
        let at = self.settling.iter().position(|(of, ..)| *of == id)?;
        self.settling.remove(at).map(|(_, verdict, note)| (verdict, note))
    }
}

async fn attach(
    target: &AmqpTarget,
    index: usize,
    spec: &Consumers,
    rcv_settle_mode: ReceiverSettleMode,
) -> Result<Link, Broken> {
    let client = target.connect(index, &spec.from).await?;
    let mut attach = Attach::receiver(&format!("load-{}", spec.from), &spec.from);
    attach.rcv_settle_mode = rcv_settle_mode;
    if spec.mode == Mode::ReceiveAndDelete {
        attach.snd_settle_mode = SenderSettleMode::Settled;
    }
    if spec.sessions {
        let filter = Map::default().symbol(SESSION_FILTER, Value::Null);
        attach.source.get_or_insert_default().filter = Some(filter);
        let wait = Map::default().symbol("com.microsoft:timeout", Value::Uint(SESSION_WAIT_MS));
        attach.properties = Some(wait);
    }
    Link::attach(client, attach).await.map_err(broken)
}

impl<T: Send> ReceiveLink<T> for AmqpReceive<T> {
    type Handle = DeliveryId;

    async fn turn(
        &mut self,
        take: usize,
        until: Option<Instant>,
        turned: &mut Turned<DeliveryId, T>,
    ) -> Result<(), Broken> {
        if self.link.is_none() {
            match self.attach().await {
                Err(Broken(why)) if why != NO_SESSION => return Err(Broken(why)),
                attached => turned.has_begun = attached.is_ok(),
            }
            return Ok(());
        }
        // What is there already needs no waiting, but what was gathered is to be written.
        let is_ready = !self.done.is_empty() || (take > 0 && !self.came.is_empty());
        let until = if is_ready { Some(Instant::now()) } else { until };
        let link = self.link()?;
        let waited = match until {
            None => link.turn().await,
            Some(until) => timeout_at(until.into(), link.turn()).await.unwrap_or(Ok(())),
        };
        waited.map_err(broken)?;
        while let Some(event) = self.link()?.poll().map_err(broken)? {
            match event {
                Event::Delivery(delivery) => self.came.push_back(delivery),
                Event::Settled { id, state } => {
                    let Some((verdict, note)) = self.answered(id) else { continue };
                    let is_done = is_echo(verdict, state.as_ref());
                    let outcome = if is_done { Outcome::Done } else { outcome(state) };
                    turned.settled.push((note, outcome));
                }
                _ => {}
            }
        }
        turned.settled.append(&mut self.done);
        let count = take.min(self.came.len());
        for _ in 0..count {
            let Some(delivery) = self.came.pop_front() else { break };
            turned.arrivals.push(self.arrival(delivery));
        }
        Ok(())
    }

    fn settle(&mut self, held: Vec<(DeliveryId, T)>, verdict: Verdict) -> Result<(), Broken> {
        let state = match verdict {
            Verdict::Complete => DeliveryState::ACCEPTED,
            Verdict::Abandon => modified(false),
            Verdict::Defer => modified(true),
            Verdict::DeadLetter => DeliveryState::rejected(Error::new(DEAD_LETTER, "load test")),
            Verdict::Lapse => {
                // They hold their place of the window until the connection's end.
                self.window += held.len() as u32;
                let window = self.window;
                return self.link()?.grant(window).map_err(broken);
            }
        };
        for (id, note) in held {
            if self.is_answered {
                self.link()?.propose(id, state.clone()).map_err(broken)?;
                self.settling.push_back((id, verdict, note));
            } else {
                self.link()?.settle(id, state.clone()).map_err(broken)?;
                self.done.push((note, Outcome::Done));
            }
        }
        Ok(())
    }

    fn renew(&mut self, _: &DeliveryId) -> Result<(), Broken> {
        // Refused before a run: see `offer`.
        Ok(())
    }

    async fn leave_session(&mut self) -> Result<(), Broken> {
        if let Some(link) = self.link.take() {
            self.came.clear();
            link.close().await;
        }
        Ok(())
    }
}

/// Whether an answer says that what was asked for is done, in the words it was asked for (SETTLE-5): what is
/// rejected in answer to a rejection was dead-lettered, unless another error is told.
fn is_echo(verdict: Verdict, state: Option<&DeliveryState>) -> bool {
    let Some(DeliveryState::Outcome(answer)) = state else { return false };
    match (verdict, answer) {
        (Verdict::Abandon | Verdict::Defer, Disposed::Modified(_))
        | (Verdict::DeadLetter, Disposed::Rejected(None)) => true,
        (Verdict::DeadLetter, Disposed::Rejected(Some(error))) => *error.condition == *DEAD_LETTER,
        _ => false,
    }
}

fn modified(undeliverable_here: bool) -> DeliveryState {
    DeliveryState::Outcome(Disposed::Modified(Modified {
        delivery_failed: Some(!undeliverable_here),
        undeliverable_here: Some(undeliverable_here),
        message_annotations: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_the_words_of_the_verdict_is_a_yes() {
        let rejected = |condition| DeliveryState::rejected(Error::new(condition, ""));
        let null = DeliveryState::Outcome(Disposed::Rejected(None));
        for (verdict, state, is_done) in [
            (Verdict::Abandon, modified(false), true),
            (Verdict::Defer, modified(true), true),
            (Verdict::DeadLetter, null, true),
            (Verdict::DeadLetter, rejected(DEAD_LETTER), true),
            (Verdict::DeadLetter, rejected("com.microsoft:message-lock-lost"), false),
            (Verdict::Abandon, rejected("com.microsoft:message-lock-lost"), false),
            (Verdict::Complete, rejected("com.microsoft:message-lock-lost"), false),
            (Verdict::Complete, modified(false), false),
        ] {
            assert_eq!(is_echo(verdict, Some(&state)), is_done, "{verdict:?} {state:?}");
        }
    }
}
