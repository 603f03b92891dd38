//! What clients ask nodes for.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use domain::{Command, Entry, Outcome, Timestamp};
use replication::{ProposeError, Replication};

use super::GROUP;
use super::ledger::Ledger;
use super::node::RealNode;
use super::watch::Watch;
use crate::random::Random;

/// Without an answer for so long, the outcome is unknown.
pub(super) const PATIENCE_MS: u64 = 4_000;

/// What a client has to do with.
pub struct Around<'a> {
    pub now: u64,
    pub nodes: &'a BTreeMap<u64, RealNode>,
    pub ledger: &'a mut Ledger,
    /// Nothing new is begun.
    pub peace: bool,
    pub watch: &'a Watch,
    pub random: &'a mut Random,
}

/// Something a node was asked for.
pub struct Call<T> {
    pub node: u64,
    answer: Pin<Box<dyn Future<Output = T>>>,
    until: u64,
}

pub type Outcomes = Result<Vec<Outcome>, ProposeError>;

pub enum CallProgress<T> {
    Nothing,
    /// And nothing will be.
    TooLate,
    Answer(T),
}

impl<T> Call<T> {
    pub fn new(node: u64, answer: impl Future<Output = T> + 'static, now: u64) -> Call<T> {
        Call { node, answer: Box::pin(answer), until: now + PATIENCE_MS }
    }

    pub fn hear(&mut self, now: u64) -> CallProgress<T> {
        match self.answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => CallProgress::Answer(answer),
            Poll::Pending if now < self.until => CallProgress::Nothing,
            Poll::Pending => CallProgress::TooLate,
        }
    }
}

impl Call<Outcomes> {
    /// The answer to a proposal, once there is one or none will come.
    pub fn outcome(&mut self, now: u64) -> Option<Outcomes> {
        match self.hear(now) {
            CallProgress::Nothing => None,
            CallProgress::TooLate => Some(Err(ProposeError::Unknown)),
            CallProgress::Answer(answer) => Some(answer),
        }
    }
}

impl Around<'_> {
    /// Who says that it leads; now and then somebody else.
    pub fn leader(&mut self) -> Option<&Replication> {
        let up = self.nodes.values().filter_map(|node| Some(&node.process.as_ref()?.replication));
        let up: Vec<&Replication> = up.collect();
        let leaders: Vec<&Replication> =
            up.iter().copied().filter(|node| node.is_leader(GROUP)).collect();
        match (up.is_empty(), leaders.is_empty() || self.random.chance(20)) {
            (true, _) => None,
            (false, true) => Some(self.random.pick(&up)),
            (false, false) => Some(self.random.pick(&leaders)),
        }
    }

    /// Proposes a command to that one.
    pub fn propose(&mut self, command: Command) -> Option<Call<Outcomes>> {
        let (now, seed) = (self.now, self.random.bytes());
        let at = Timestamp(1_700_000_000_000 + now);
        let entry = Entry { at, seed, commands: vec![command] };
        let node = self.leader()?;
        Some(Call::new(node.node(), node.propose(GROUP, wire::encode_entry(&entry)), now))
    }
}
