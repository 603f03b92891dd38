//! The engine of one group.

use std::ops::ControlFlow;

use domain::{
    AcceptSession, Acquire, Command, Effect, EntityId, Key, Line, Outcome, PerSubQueue, QueueId,
    ReceiveSession, ReceiverId, Rows, SessionEffect, SessionId, SessionToken, Span, SubQueue,
    Timestamp, Waiting,
};

use crate::credit::Credit;
use crate::fanout::Fanout;
use crate::forwards::{Carried, ForwardTask, Forwards};
use crate::idle::Idle;
use crate::sessions::Sessions;
use crate::timers::Timers;
use crate::{EngineOptions, Looked, Timer};

/// See the crate's head. A driver tells it of effects and outcomes as they come, and after each
/// batch asks [`Engine::acquires`] and [`Engine::poll`] what to propose and
/// [`Engine::next_deadline`] how long to wait.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    pub(crate) options: EngineOptions,
    pub(crate) timers: Timers,
    pub(crate) credit: Credit<QueueId>,
    pub(crate) sessions: Sessions,
    pub(crate) fanout: Fanout,
    pub(crate) forwards: Forwards,
    pub(crate) idle: Idle,
    detached: Vec<ReceiverId>,
}

impl Engine {
    /// Of a group without rows.
    pub fn new(options: EngineOptions) -> Engine {
        Engine { options, ..Engine::default() }
    }

    /// Of a new leader: timers and available counts from rows that hold every entry of earlier
    /// terms. Receivers attach anew, so the order of waiting credit starts anew too (LOCK-7).
    pub fn rebuild(rows: &impl Rows, options: EngineOptions) -> Engine {
        let mut engine = Engine::new(options);
        crate::rebuild::rebuild(&mut engine, rows);
        engine
    }

    /// What an entry did that concerns the leader. Effects must come in log order.
    pub fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Available { queue, count, .. } => self.credit.available(queue, count),
            Effect::Next { entity, kind, due } => self.timers.next(entity, kind, due),
            Effect::Locked { queue, token, until } => self.timers.locked(queue, token, until),
            Effect::Unlocked { queue, token } => self.timers.unlocked(queue, token),
            Effect::Deleted { entity } => {
                self.timers.deleted(entity);
                self.idle.forget(entity);
                self.fanout.deleted(entity);
                self.forwards.deleted(entity);
                for queue in queues(entity) {
                    self.detached.extend(self.credit.deleted(&queue));
                }
                self.detached.extend(self.sessions.deleted(entity));
            }
            Effect::Updated { entity } => {
                self.timers.updated(entity);
                queues(entity).into_iter().for_each(|queue| self.credit.updated(queue));
                self.sessions.updated(entity);
                self.forwards.updated(entity);
            }
            Effect::Fanout { topic, copies_max } => self.fanout.set(topic, copies_max),
            Effect::Temporary { entity, window } => self.idle.temporary(entity, window),
            Effect::SweepWanted => self.timers.sweep_wanted(),
            // Its owner builds another, or has it brought there.
            Effect::Restored | Effect::RelocationWanted => (),
            Effect::Session(effect) => self.session_effect(effect),
            Effect::Forward(effect) => self.forwards.effect(effect),
        }
    }

    fn session_effect(&mut self, effect: SessionEffect) {
        match effect {
            SessionEffect::Locked { entity, token, until } => {
                self.timers.session_locked(entity, token, until);
            }
            SessionEffect::Unlocked { entity, token } => {
                self.timers.session_unlocked(entity, &token);
                self.sessions.unlocked(entity, &token);
            }
            SessionEffect::Ready { entity, session, count } => {
                self.sessions.ready(entity, session, count);
            }
            SessionEffect::Free { entity, count } => self.sessions.free(entity, count),
        }
    }

    /// Receivers whose hold of a session ended since this was last asked, attached no more.
    pub fn take_lost(&mut self) -> Vec<(ReceiverId, SessionId)> {
        self.sessions.take_lost()
    }

    /// A receiver waits for the next session of an entity that is free (SESS-7), behind all who
    /// wait for one already.
    pub fn accept(&mut self, receiver: ReceiverId, entity: EntityId) {
        self.sessions.accept(receiver, entity);
    }

    /// What those who wait justify asking for now, appended to `out`: answered by
    /// [`Engine::accepted`] or [`Engine::accept_lost`], in order.
    pub fn accepts(&mut self, out: &mut Vec<AcceptSession>) {
        self.sessions.accepts(&self.options, out);
    }

    /// The receiver's request for a session was answered: it waits no more, or goes on waiting in
    /// its place.
    pub fn accepted(&mut self, receiver: ReceiverId, outcome: &Outcome) {
        self.sessions.accepted(receiver, Some(outcome));
    }

    /// As [`Engine::accepted`], where it was not applied, or nobody knows.
    pub fn accept_lost(&mut self, receiver: ReceiverId) {
        self.sessions.accepted(receiver, None);
    }

    /// A receiver holds a session, without credit yet. It is told of by [`Engine::take_lost`] when
    /// that ends.
    pub fn hold(&mut self, receiver: ReceiverId, entity: EntityId, token: SessionToken) {
        self.sessions.hold(receiver, entity, token);
    }

    /// What the credit of those who hold sessions justifies asking for now; as
    /// [`Engine::acquires`].
    pub fn receives(&mut self, out: &mut Vec<ReceiveSession>) {
        self.sessions.receives(&self.options, out);
    }

    /// Receivers whose entity was deleted since this was last asked: they are attached no more.
    pub fn take_detached(&mut self) -> Vec<ReceiverId> {
        std::mem::take(&mut self.detached)
    }

    /// A receiver is there. It has no credit yet; attaching twice changes nothing.
    pub fn attach(&mut self, receiver: ReceiverId, queue: QueueId) {
        self.credit.attach(receiver, queue);
    }

    /// A receiver grants so much more credit, which waits behind all that waits already (LOCK-7).
    /// Without effect on one that is not attached.
    pub fn credit(&mut self, receiver: ReceiverId, count: u32) {
        match self.sessions.holds(receiver) {
            true => self.sessions.credit(receiver, count),
            false => self.credit.credit(receiver, count),
        }
    }

    /// Withdraws a receiver's waiting credit, until it grants new credit, and returns how much that
    /// was. Take what [`Engine::wants`] gives first, so that a drain uses what is there.
    pub fn drain(&mut self, receiver: ReceiverId) -> u32 {
        match self.sessions.holds(receiver) {
            true => self.sessions.drain(receiver),
            false => self.credit.drain(receiver),
        }
    }

    /// A receiver is gone, with its credit. Deliveries of an acquire of its still under way are
    /// the caller's to release (LOCK-20).
    pub fn detach(&mut self, receiver: ReceiverId) {
        self.credit.detach(receiver);
        self.sessions.detach(receiver);
    }

    /// Credit of a queue that is neither used nor reserved.
    pub fn waiting(&self, queue: QueueId) -> u64 {
        self.credit.waiting(&queue)
    }

    /// How many wait for the next session of an entity, and are not asked for.
    pub fn waiting_for_session(&self, entity: EntityId) -> u64 {
        self.sessions.waiting(entity)
    }

    /// A receiver's credit that is not used: waiting, or reserved for an acquire under way.
    pub fn credit_left(&self, receiver: ReceiverId) -> u32 {
        match self.sessions.holds(receiver) {
            true => self.sessions.left(receiver),
            false => self.credit.left(receiver),
        }
    }

    /// What a queue's waiting credit justifies asking for now, appended to `out`. `incoming`:
    /// messages that become available in the same entry before these commands, so that a message
    /// can be stored and handed out in one round. The credit is reserved until
    /// [`Engine::acquired`] or [`Engine::acquire_lost`].
    pub fn wants(&mut self, queue: QueueId, incoming: u32, out: &mut Vec<Acquire>) {
        let bytes_max = self.options.acquire_bytes_max;
        self.credit.wants(&queue, incoming, &self.options, &mut |queue, receiver, count_max| {
            out.push(Acquire { queue: *queue, receiver, count_max, bytes_max });
        });
    }

    /// [`Engine::wants`] for every queue about which something changed since this was last asked.
    pub fn acquires(&mut self, out: &mut Vec<Acquire>) {
        let bytes_max = self.options.acquire_bytes_max;
        self.credit.acquires(&self.options, &mut |queue, receiver, count_max| {
            out.push(Acquire { queue: *queue, receiver, count_max, bytes_max });
        });
    }

    /// Whether [`Engine::acquires`], [`Engine::accepts`] or [`Engine::receives`] has something to look
    /// at.
    pub fn has_acquires(&self) -> bool {
        self.credit.has_changed() || self.sessions.has_changed()
    }

    /// The receiver's oldest acquire was answered: answers are told in the order in which the
    /// acquires were given out, lost ones in their turn. Credit it did not use goes back to its
    /// place in the order; returns how much was withdrawn instead, because the receiver is draining.
    pub fn acquired(&mut self, receiver: ReceiverId, outcome: &Outcome) -> u32 {
        match self.sessions.holds(receiver) {
            true => self.sessions.acquired(receiver, Some(outcome)),
            false => self.credit.acquired(receiver, Some(outcome)),
        }
    }

    /// The receiver's oldest acquire was not applied, or nobody knows. As [`Engine::acquired`].
    pub fn acquire_lost(&mut self, receiver: ReceiverId) -> u32 {
        match self.sessions.holds(receiver) {
            true => self.sessions.acquired(receiver, None),
            false => self.credit.acquired(receiver, None),
        }
    }

    /// Commands for what is due at `now`, for one entry: bounded by the options. One round is under
    /// way at a time: empty until [`Engine::fired`] or [`Engine::fire_lost`] ends it.
    pub fn poll(&mut self, now: Timestamp) -> Vec<Command> {
        self.timers.poll(now, &self.options)
    }

    /// The round was applied: its outcomes, in the order of its commands. Poll again: what has more
    /// is due still.
    pub fn fired(&mut self, outcomes: &[Outcome]) {
        self.timers.fired(outcomes, &self.options);
    }

    /// The round was not applied, or nobody knows: all of it is due again.
    pub fn fire_lost(&mut self) {
        self.timers.lost(&self.options);
    }

    /// When [`Engine::poll`] has something next, exactly; it may lie in the past. `None`: nothing
    /// is armed, or a round is under way, after whose end to ask again.
    pub fn next_deadline(&mut self) -> Option<Timestamp> {
        self.timers.next_deadline()
    }

    /// What forwarding asks for at `now`, appended to `out`. Each is answered once, by
    /// [`Engine::packed`] or [`Engine::carried`].
    pub fn forward_tasks(&mut self, now: Timestamp, out: &mut Vec<ForwardTask>) {
        self.forwards.forward_tasks(now, &self.options, out);
    }

    /// When [`Engine::forward_tasks`] has something next; it may lie in the past.
    pub fn next_forward_task(&self) -> Option<Timestamp> {
        self.forwards.next_deadline()
    }

    /// A queue's `Ship` or `Unpark` was applied, and its effects told; or, unless `done`, it was not,
    /// or nobody knows.
    pub fn packed(&mut self, queue: QueueId, done: bool, now: Timestamp) {
        self.forwards.packed(queue, done, now);
    }

    /// A shipment's forward task is over. The effects of a settled one were told before or will be
    /// told.
    pub fn carried(&mut self, line: Line, serial: u64, carried: Carried, now: Timestamp) {
        self.forwards.carried(line, serial, carried, now);
    }

    /// Every line with something to move, and the shipments of each: what a rebuilt engine must
    /// agree with.
    pub fn forwards(&self) -> impl Iterator<Item = (Line, Waiting, Vec<u64>)> + '_ {
        self.forwards.iter()
    }

    /// Most copies that one message sent to this entity makes: 1 of a queue.
    pub fn copies_max(&self, entity: EntityId) -> u64 {
        self.fanout.copies_max(entity)
    }

    /// What limits the matching of an entry (RULE-41), and in front of which of its commands: as many units for
    /// each topic whose matching goes on as for all that is published, so that none is starved.
    pub fn match_limits(&self, commands: &[Command], units_max: u64) -> Vec<(usize, Command)> {
        crate::match_limits::match_limits(&self.fanout, commands, units_max)
    }

    /// Whether somebody waits for what an entity has, or holds a session of it (IDLE-4): then it is
    /// in use.
    pub fn is_awaited(&self, entity: EntityId, now: Timestamp) -> bool {
        is_awaited(&self.credit, &self.sessions, &self.timers, entity, now)
    }

    /// Of an entity and, if it is a topic, its subscriptions, one that is awaited: to be touched
    /// before the entity is sealed.
    pub fn awaited_of(
        &self,
        entity: EntityId,
        now: Timestamp,
        rows: &impl Rows,
    ) -> Option<EntityId> {
        let mut awaited = Some(entity).filter(|entity| self.is_awaited(*entity, now));
        let from = Key::Subscription(entity, EntityId(0));
        let to = Key::Subscription(entity, EntityId(u64::MAX));
        rows.scan(&from, &to, &mut |key, _| match (awaited, key) {
            (None, Key::Subscription(_, subscription)) => {
                awaited = Some(subscription).filter(|entity| self.is_awaited(*entity, now));
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        });
        awaited
    }

    /// Somebody has come to wait for an entity. True: a `Touch` must say so now, and be applied
    /// before anybody is told that there is nothing (IDLE-14). Rows are those applied.
    pub fn awaited(&mut self, entity: EntityId, now: Timestamp, rows: &impl Rows) -> bool {
        self.idle.awaited(entity, now, rows)
    }

    /// Looks at temporary entities of which something may have to be said, a bounded number: who is
    /// idle, and who is in use without the log's knowing. A new leader names nothing as idle while it
    /// has `patience` left for its edges to attach.
    pub fn look(&mut self, now: Timestamp, patience: Span, rows: &impl Rows) -> Looked {
        let (credit, sessions, timers) = (&self.credit, &self.sessions, &self.timers);
        let is_awaited = |entity| is_awaited(credit, sessions, timers, entity, now);
        self.idle.look(now, patience, rows, is_awaited)
    }

    /// When [`Engine::look`] has something to look at; it may lie in the past.
    pub fn next_look(&self) -> Option<Timestamp> {
        self.idle.next_look()
    }

    /// Entities that are deleted when nobody uses them, and subscriptions whose topic is, in order.
    pub fn temporaries(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.idle.entities()
    }

    pub fn temporary_count(&self) -> usize {
        self.idle.len()
    }

    /// Timers on the wheel.
    pub fn timer_count(&self) -> usize {
        self.timers.len()
    }

    /// Every timer and when it is due, in order of what it is about: what a rebuilt engine must
    /// agree with.
    pub fn timers(&self) -> impl Iterator<Item = (Timer, Timestamp)> + '_ {
        self.timers.iter()
    }

    /// As [`Engine::timers`], of held sessions.
    pub fn session_timers(&self) -> impl Iterator<Item = (EntityId, SessionToken, Timestamp)> + '_ {
        self.timers.sessions()
    }

    /// Timers off the wheel: named in the round under way, or resting because firing them moved
    /// nothing (their entity is suspended).
    pub fn timers_off_wheel(&self) -> usize {
        self.timers.off_wheel()
    }
}

/// All that an entity's messages may be in.
fn queues(entity: EntityId) -> PerSubQueue<QueueId> {
    SubQueue::ALL.map(|sub| QueueId { entity, sub })
}

/// See [`Engine::is_awaited`].
fn is_awaited(
    credit: &Credit<QueueId>,
    sessions: &Sessions,
    timers: &Timers,
    entity: EntityId,
    now: Timestamp,
) -> bool {
    queues(entity).iter().any(|queue| credit.is_awaited(queue))
        || sessions.is_awaited(entity)
        || timers.is_held(entity, now)
}
