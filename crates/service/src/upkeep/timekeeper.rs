//! Compares clocks with the other nodes, once a second. Where a majority agrees with this node's
//! clock its drivers may stamp; where none does, they stop, and leaderships go to a node whose clock
//! a majority agrees with.
//!
//! Invariant: nothing is stamped before the first agreement. An entry stamped too far ahead could
//! never be mended, as time in the log does not run back (TIME-3).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::GroupId;
use engine::agreement::{Agreement, Correction, Reading, Shown};
use futures::future::join_all;
use replication::{Clocks, GroupStatus, Replication};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::clock::{Clock, ClockReport};
use crate::leader::Groups;
use crate::metric;

/// How often clocks are compared.
const ROUND: Duration = Duration::from_secs(1);
/// While a leader here may not stamp.
const ROUND_RESTLESS: Duration = Duration::from_millis(100);
/// Questions to one node in one round, at most.
const QUESTIONS_MAX: usize = 3;
/// An answer this sharp needs no further question.
const SHARP_US: i64 = 5_000;
/// Half of it is the error of the slowest answer: more than that tells nothing.
const ANSWER_MAX: Duration = Duration::from_millis(900);
/// A node that answered no heartbeat for this long does not get leadership.
const HEARD_MS_MAX: u64 = 1_000;

pub(crate) struct Timekeeper {
    replication: Replication,
    clock: Arc<Clock>,
    groups: Arc<Groups>,
    /// Leadership was won: look at once.
    elected: Arc<Notify>,
    agreement: Agreement,
    moves: JoinSet<GroupId>,
    moving: BTreeSet<GroupId>,
    /// What an operator was told last: only a change is news.
    told: Option<bool>,
}

impl Timekeeper {
    pub fn new(
        replication: Replication,
        clock: Arc<Clock>,
        groups: Arc<Groups>,
        elected: Arc<Notify>,
        offset_max: Duration,
    ) -> Timekeeper {
        let offset_max_us = u64::try_from(offset_max.as_micros()).unwrap_or(u64::MAX);
        let agreement = Agreement::new(replication.node(), offset_max_us);
        let (moves, moving) = Default::default();
        Timekeeper { replication, clock, groups, elected, agreement, moves, moving, told: None }
    }

    pub async fn run(mut self) {
        loop {
            let begun = Instant::now();
            self.ask().await;
            self.judge();
            loop {
                let pause = if self.is_restless() { ROUND_RESTLESS } else { ROUND };
                tokio::select! {
                    () = sleep_until(begun + pause) => break,
                    () = self.elected.notified() => self.judge(),
                }
            }
        }
    }

    /// Reads the clocks of all nodes this one shares a group with.
    async fn ask(&mut self) {
        let own = self.replication.node();
        let groups = self.replication.status();
        let peers: BTreeSet<u64> = groups.iter().flat_map(electorate).collect();
        let peers = peers.into_iter().filter(|peer| *peer != own);
        let this = &*self;
        let read = join_all(peers.map(|peer| async move { (peer, this.ask_peer(peer).await) }));
        for (peer, reading) in read.await {
            if let Some(reading) = reading {
                self.agreement.read_peer(peer, reading);
            }
        }
    }

    /// The sharpest of some readings; none if the peer does not answer.
    async fn ask_peer(&self, peer: u64) -> Option<Reading> {
        let mut sharpest: Option<Reading> = None;
        for _ in 0..QUESTIONS_MAX {
            let asked_us = self.clock.monotonic_us();
            let answer = timeout(ANSWER_MAX, self.replication.ask_clocks(peer)).await;
            let Ok(Ok(Clocks { wall_us, clock_us })) = answer else { break };
            let shown = Shown { wall_us, clock_us };
            let reading = Reading::of(shown, asked_us, self.clock.monotonic_us());
            if sharpest.is_none_or(|sharpest| reading.error_us < sharpest.error_us) {
                sharpest = Some(reading);
            }
            if reading.error_us <= SHARP_US {
                break;
            }
        }
        sharpest
    }

    /// Corrects the clock and tells every driver whether it may stamp.
    fn judge(&mut self) {
        let own = self.replication.node();
        let groups = self.replication.status();
        self.agreement.read_own(self.clock.read());
        let now_us = self.clock.monotonic_us();
        self.agreement.forget(now_us);
        let electorates: Vec<BTreeSet<u64>> = groups.iter().map(electorate).collect();
        let correction = self.agreement.correction(now_us, &electorates);
        if let Correction::Step(by_us) = correction {
            tracing::warn!(by_ms = by_us / 1000, "the clock is set to what a majority shows");
        }
        self.clock.correct(correction);
        self.agreement.read_own(self.clock.read());

        let mut agreed = Vec::with_capacity(groups.len());
        for (status, electorate) in groups.iter().zip(&electorates) {
            let agrees = self.agreement.agrees(own, electorate);
            // A replica that was just made does not know who else there is.
            if !electorate.is_empty() {
                agreed.push(agrees);
            }
            let others = status.voters.iter().filter(|node| **node != own).copied();
            let agreeing: BTreeSet<u64> =
                others.filter(|node| self.agreement.agrees(*node, electorate)).collect();
            if !agrees && status.leading {
                self.hand_over(status, &agreeing);
            }
            if let Some(group) = self.groups.get(status.id) {
                group.let_stamp(agrees, agreeing);
            }
        }
        self.tell(!agreed.is_empty() && agreed.into_iter().all(|agrees| agrees));
        let peers: BTreeSet<&u64> =
            electorates.iter().flatten().filter(|peer| **peer != own).collect();
        for peer in peers {
            metric::peer_clock(*peer, self.agreement.peer_off_us(*peer));
        }
    }

    fn tell(&mut self, agrees: bool) {
        let off_us = self.agreement.off_us();
        let off_ms = off_us.map(|(wall_us, _)| wall_us / 1000);
        // A node that nobody has answered yet is not off.
        let is_starting = self.told.is_none() && !agrees && off_ms.is_none_or(|ms| ms == 0);
        let report = ClockReport { off_ms: off_ms.filter(|_| !is_starting), agrees };
        let astray_us = off_us.filter(|_| !agrees).map_or(0, |(_, clock_us)| clock_us);
        self.clock.find(report, astray_us);
        metric::clock(&report);
        if is_starting || self.told == Some(agrees) {
            return;
        }
        self.told = Some(agrees);
        match agrees {
            true => tracing::info!(off_ms, "a majority agrees with this node's clock"),
            false => {
                tracing::warn!(
                    off_ms,
                    "no majority agrees with this node's clock; it leads nothing"
                );
            }
        }
    }

    fn is_restless(&self) -> bool {
        self.groups.all().iter().any(|group| group.leads() && !group.may_stamp())
    }

    /// Gives leadership to the furthest of the voters whose clocks agree. Should that fail, the next
    /// round tries again.
    fn hand_over(&mut self, status: &GroupStatus, agreeing: &BTreeSet<u64>) {
        while let Some(moved) = self.moves.try_join_next() {
            if let Ok(group) = moved {
                self.moving.remove(&group);
            }
        }
        let answers = |node: &&u64| {
            let heard = status.heard_ms.get(node).copied().flatten();
            heard.is_some_and(|ms| ms <= HEARD_MS_MAX)
        };
        let matched = |node: &&u64| status.matched.get(node).copied().flatten();
        let successor = agreeing.iter().filter(answers).max_by_key(matched).copied();
        let (Some(successor), group) = (successor, status.id) else { return };
        if !self.moving.insert(group) {
            return;
        }
        let replication = self.replication.clone();
        self.moves.spawn(async move {
            match replication.transfer(group, successor).await {
                Ok(()) => {
                    tracing::info!(%group, successor, "leadership went to a clock that agrees")
                }
                Err(error) => {
                    tracing::debug!(%group, successor, %error, "leadership stays for now")
                }
            }
            group
        });
    }
}

/// The nodes whose clocks count in a group. One that lost its disk is among them although it has no
/// vote: its clock is as good as ever, and were the count to shrink with the votes, fewer wrong
/// clocks would do for a majority.
fn electorate(group: &GroupStatus) -> BTreeSet<u64> {
    group.voters.union(&group.learners).copied().collect()
}
