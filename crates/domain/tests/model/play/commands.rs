//! From what is drawn to what is asked: mostly of messages, locks and sessions that are there.

use domain::{
    AcceptSession, Acquire, CancelScheduled, Command, Commit, DeadlineKind, DeleteBatch,
    DeleteSessionBatch, Disposition, FireLocks, FireSessions, LockToken, NewMessage, Operation,
    Origin, Properties, QueueId, QueueProperties, ReceiveDeferred, ReceiveSession,
    ReceiveSessionDeferred, ReceiverId, ReleaseSession, Renew, RenewSession, ResumeSession, Select,
    Send, SequenceNumber, SessionCommand, SessionId, SessionToken, SetSessionState, Settle,
    Settlement, Span, Timestamp, UpdateQueue, Value,
};

use super::Game;
use crate::act::{Act, Asked, Change, Draft, How, InSession, Pick};
use crate::message::{Message, Place};
use crate::support::QUEUE;
use crate::support::content::TRACEPARENT;

impl Game {
    pub fn command(&mut self, act: &Act, asked: Option<Asked>) -> Command {
        let origin = asked.map(|Asked { producer, serial, ordered, retry }| Origin {
            producer,
            serial,
            ordered,
            retry,
        });
        match act {
            Act::Send(drafts) => {
                let messages = drafts.iter().map(|draft| self.message(draft)).collect();
                Command::Send(Send { origin, entity: QUEUE, messages })
            }
            Act::Take { dead, count, bytes } => Command::Acquire(Acquire {
                queue: queue(*dead),
                receiver: ReceiverId::default(),
                count_max: *count,
                bytes_max: *bytes,
            }),
            Act::Settle { picks, atomic } => self.settle(picks, *atomic, origin),
            Act::Renew(picks) => {
                let tokens: Vec<_> = picks.iter().map(|pick| self.token(*pick)).collect();
                let queue = tokens[0].0;
                let tokens = tokens.into_iter().map(|(_, token)| token).collect();
                Command::Renew(Renew { origin, queue, tokens })
            }
            Act::Deferred { dead, picks } => {
                let aside = |dead: bool| {
                    move |m: &Message| {
                        m.deferred && m.lock.is_none() && (m.place == Place::Dead) == dead
                    }
                };
                let any = |dead: bool| self.plain.messages.iter().any(aside(dead));
                let dead = if any(*dead) { *dead } else { !dead };
                Command::ReceiveDeferred(ReceiveDeferred {
                    origin,
                    queue: queue(dead),
                    receiver: ReceiverId::default(),
                    numbers: self.picked(picks, aside(dead)),
                })
            }
            Act::Select { dead, picks } => {
                let queue = queue(*dead);
                let numbers = self.picked(picks, |m| m.is_available(queue.sub));
                let receiver = ReceiverId::default();
                Command::Select(Select { origin, queue, receiver, numbers })
            }
            Act::Cancel(picks) => Command::CancelScheduled(CancelScheduled {
                origin,
                entity: QUEUE,
                numbers: self.picked(picks, |m| matches!(m.place, Place::Waiting { .. })),
            }),
            Act::Delete { dead, count, before } => Command::DeleteBatch(DeleteBatch {
                origin,
                queue: queue(*dead),
                count_max: *count,
                before: before.map(|ms| Timestamp(self.now.0.saturating_sub(ms))),
            }),
            Act::Fire(kind, count) => fire(*kind, *count),
            Act::FireLocks(None) => {
                Command::FireLocks(FireLocks { locks: self.locks(Timestamp::ZERO) })
            }
            Act::FireLocks(Some(picks)) => {
                let locks = picks.iter().map(|pick| self.token(*pick)).collect();
                Command::FireLocks(FireLocks { locks })
            }
            Act::FireAll | Act::Age => unreachable!("made of several steps"),
            Act::Update(change) => {
                let mut properties = self.properties.clone();
                change_to(&mut properties, *change);
                // What is refused is no base for the next change.
                if domain::validate::queue_properties(&properties).is_ok() {
                    self.properties = properties.clone();
                }
                let properties = Box::new(properties);
                Command::UpdateQueue(UpdateQueue { origin, entity: QUEUE, properties })
            }
            Act::Accept { dead, session } => {
                let (queue, receiver) = (queue(*dead), ReceiverId::default());
                let session = session.map(session_id);
                let accept = AcceptSession { origin, queue, receiver, session };
                Command::Session(SessionCommand::Accept(accept))
            }
            Act::Session(pick, what) => {
                Command::Session(self.in_session(self.hold(*pick), what, origin))
            }
            Act::FireSessions => self.fire_sessions(),
            Act::Commit(acts) => {
                let operations = acts.iter().map(|act| self.operation(act)).collect();
                Command::Commit(Commit { origin, entity: QUEUE, operations })
            }
            Act::Advance(ms) => Command::AdvanceClock { by: Span(*ms) },
            Act::Touch => Command::Touch { entity: QUEUE },
            Act::Seal(earlier) => {
                // As of the last step: what it gathers now, it does not know of.
                let known = self.plain.idle_since();
                let idle_since = Timestamp(known.0.saturating_sub(*earlier));
                Command::Seal(domain::Seal { entity: QUEUE, idle_since })
            }
        }
    }

    pub fn operation(&mut self, act: &Act) -> Operation {
        match self.command(act, None) {
            Command::Send(send) => Operation::Send(send),
            Command::Settle(settle) => Operation::Settle(settle),
            Command::Renew(renew) => Operation::Renew(renew),
            Command::CancelScheduled(cancel) => Operation::CancelScheduled(cancel),
            Command::Session(SessionCommand::SetState(set)) => Operation::SetState(set),
            other => unreachable!("not drawn for a transaction: {other:?}"),
        }
    }

    pub fn message(&self, draft: &Draft) -> NewMessage {
        NewMessage {
            // Those of odd sizes are told of in their senders' traces.
            content: match draft.size % 2 {
                0 => vec![draft.size as u8].into(),
                _ => TRACEPARENT.into(),
            },
            size_bytes: draft.size,
            header_bytes: draft.size / 2,
            message_id: draft.id.map(|id| format!("id{id}")),
            session_id: draft.session.map(|id| session_id(id).to_string()),
            partition_key: None,
            ttl: draft.ttl.map(Span),
            scheduled_at: draft.due.map(|ms| self.now.plus(Span(ms))),
        }
    }

    pub fn fire_sessions(&self) -> Command {
        let holds = domain::session_holds(&self.group.rows, QUEUE);
        let locks = holds.into_iter().map(|(token, _)| (QUEUE, token)).collect();
        Command::Session(SessionCommand::Fire(FireSessions { locks }))
    }

    /// Mostly the token of a session that is held, else any that ever was, or one that never was.
    pub fn hold(&self, pick: Pick) -> SessionToken {
        let choice = usize::from(pick / 8);
        let live: Vec<_> =
            self.holds.iter().filter(|token| self.plain.has_session(token)).collect();
        match (live.is_empty() || pick.is_multiple_of(8), self.holds.is_empty()) {
            (false, _) => live[choice % live.len()].clone(),
            (true, false) => self.holds[choice % self.holds.len()].clone(),
            (true, true) => SessionToken { session: session_id(0), nonce: 1 },
        }
    }

    pub fn in_session(
        &self,
        token: SessionToken,
        what: &InSession,
        origin: Option<Origin>,
    ) -> SessionCommand {
        let (entity, receiver) = (QUEUE, ReceiverId::default());
        match what {
            InSession::Receive { count, bytes } => SessionCommand::Receive(ReceiveSession {
                entity,
                token,
                receiver,
                count_max: *count,
                bytes_max: *bytes,
            }),
            InSession::Resume(picks) => {
                let arrived = picks.iter().map(|pick| self.token(*pick).1).collect();
                let receiver = ReceiverId { epoch: 1, ..receiver };
                SessionCommand::Resume(ResumeSession { entity, token, receiver, arrived })
            }
            InSession::Renew => SessionCommand::Renew(RenewSession { origin, entity, token }),
            InSession::Release => SessionCommand::Release(ReleaseSession { origin, entity, token }),
            InSession::SetState(state) => {
                let state = state.map(|length| vec![7; length.into()].into());
                SessionCommand::SetState(SetSessionState { origin, entity, token, state })
            }
            InSession::Deferred(picks) => {
                let of = |m: &Message| m.deferred && m.lock.is_none() && m.is_of(&token.session);
                let numbers = self.picked(picks, of);
                let receive = ReceiveSessionDeferred { origin, entity, token, receiver, numbers };
                SessionCommand::ReceiveDeferred(receive)
            }
            InSession::Delete { count, before } => {
                let before = before.map(|ms| Timestamp(self.now.0.saturating_sub(ms)));
                let count_max = *count;
                let delete = DeleteSessionBatch { origin, entity, token, count_max, before };
                SessionCommand::DeleteBatch(delete)
            }
        }
    }

    pub fn settle(&self, picks: &[(Pick, How)], atomic: bool, origin: Option<Origin>) -> Command {
        let mut queue = None;
        let mut settlements = Vec::new();
        for (pick, how) in picks {
            let (of, token) = self.token(*pick);
            queue.get_or_insert(of);
            settlements.push(Settlement { token, disposition: disposition(how) });
        }
        let queue = queue.expect("a settlement");
        Command::Settle(Settle { origin, queue, settlements, atomic })
    }

    /// Locks that are there as of the last step, and end after an instant.
    pub fn locks(&self, after: Timestamp) -> Vec<(QueueId, LockToken)> {
        let lock = |message: &Message| {
            let dead = message.place == Place::Dead;
            let lock = message.lock.filter(|(_, until)| *until > after);
            lock.map(|(token, _)| (queue(dead), token))
        };
        self.plain.messages.iter().filter_map(lock).collect()
    }

    /// Mostly the token of a lock that is held, or of one that lapsed and is there still; else any
    /// that ever was, or one that never was.
    pub fn token(&self, pick: Pick) -> (QueueId, LockToken) {
        let choice = usize::from(pick / 8);
        let live = match pick % 8 {
            0 => Vec::new(),
            1 => self.locks(Timestamp::ZERO),
            _ => self.locks(self.now),
        };
        if !live.is_empty() {
            return live[choice % live.len()];
        }
        let never = LockToken { sequence: SequenceNumber(choice as u64 % 9), nonce: 1 };
        match self.tokens.is_empty() {
            true => (queue(pick.is_multiple_of(16)), never),
            false => self.tokens[choice % self.tokens.len()],
        }
    }

    /// Mostly numbers of messages that match, else any.
    pub fn picked(
        &self,
        picks: &[Pick],
        matches: impl Fn(&Message) -> bool,
    ) -> Vec<SequenceNumber> {
        let fitting: Vec<_> =
            self.plain.messages.iter().filter(|m| matches(m)).map(|m| m.number).collect();
        let number = |pick: &Pick| {
            let choice = usize::from(pick / 8);
            match fitting.is_empty() || pick.is_multiple_of(8) {
                true => choice as u64 % (self.plain.next + 1),
                false => fitting[choice % fitting.len()],
            }
        };
        picks.iter().map(number).map(SequenceNumber).collect()
    }
}

fn session_id(id: u8) -> SessionId {
    SessionId::from(format!("s{id}"))
}

pub fn queue(dead: bool) -> QueueId {
    if dead { QueueId::dead_letter(QUEUE) } else { QueueId::main(QUEUE) }
}

pub fn fire(kind: DeadlineKind, count_max: u32) -> Command {
    Command::Fire(domain::Fire { entity: QUEUE, kind, count_max })
}

fn change_to(properties: &mut QueueProperties, change: Change) {
    match change {
        Change::DefaultTtl(ttl) => properties.default_ttl = ttl.map_or(Span::MAX, Span),
        Change::Flag(flag) => properties.dead_letter_on_expiration = flag,
        Change::MaxDeliveryCount(count) => properties.max_delivery_count = count,
        Change::Status(status) => properties.status = status,
        Change::LockDuration(ms) => properties.lock_duration = Span(ms),
        Change::Window(ms) => properties.duplicate_detection_window = Span(ms),
        Change::Idle(ms) => properties.auto_delete_on_idle = ms.map_or(Span::MAX, Span),
    }
}

pub fn disposition(how: &How) -> Disposition {
    match how {
        How::Complete => Disposition::Complete,
        How::Abandon(property) => Disposition::Abandon { properties: properties(*property) },
        How::Defer(property) => Disposition::Defer { properties: properties(*property) },
        How::DeadLetter { reason, description, property } => Disposition::DeadLetter {
            reason: reason.map(|n| format!("reason {n}")),
            description: description.map(|n| format!("description {n}")),
            properties: properties(*property),
        },
        How::Release => Disposition::Release,
        How::Withheld => Disposition::Withheld,
    }
}

/// Some of them stand in the broker's own names.
fn properties(drawn: Option<u8>) -> Properties {
    let Some(drawn) = drawn else { return Properties::new() };
    let (name, value) = match drawn {
        0 => ("DeadLetterReason", Value::Int(7)),
        1 => ("DeadLetterErrorDescription", Value::String("mine".to_owned())),
        2 => ("a", Value::String("text".to_owned())),
        _ => ("a", Value::Bool(true)),
    };
    Properties::from([(name.to_owned(), value)])
}
