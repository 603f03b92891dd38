//! Disk space, and what leaders do where it is short (QUOTA-37). A group needs a majority of its
//! nodes, so its leader takes in nothing more while no majority has space, and only then: a node
//! short of space gives its leaderships to nodes that are not, and follows as long as it can.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::GroupId;
use futures::future::join_all;
use parking_lot::Mutex;
use replication::GroupStatus;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::edge::{Router, catalog};
use crate::peer::LocalNode;
use crate::upkeep::succession::{Succession, Unfit};

/// How often other nodes are asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How often it is judged what that means.
const JUDGE_EVERY: Duration = Duration::from_millis(250);
/// A node not heard of for so long is away: nobody counts on its space.
const HEARD_MAX: Duration = Duration::from_secs(5);
/// A leader short of space that found no successor for so long refuses, as if no other had any.
const HAND_OVER_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Space {
    router: Arc<Router>,
    succession: Arc<Succession>,
    heard: Mutex<BTreeMap<u64, Heard>>,
}

/// What a node last said.
#[derive(Clone, Copy)]
struct Heard {
    low: bool,
    /// How many data groups it leads.
    led: usize,
    at: Instant,
}

/// What a leader does.
#[derive(Debug, PartialEq)]
enum Verdict {
    TakeIn,
    /// To one of these.
    HandOver(Vec<u64>),
    /// For want of space on these.
    Refuse(Vec<u64>),
}

impl Space {
    pub fn new(router: Arc<Router>, succession: Arc<Succession>) -> Space {
        Space { router, succession, heard: Mutex::default() }
    }

    pub async fn run(self) {
        tokio::join!(self.ask(), self.judge());
    }

    async fn ask(&self) {
        loop {
            let router = &self.router;
            let nodes = catalog::nodes(&router.local.catalog());
            let others = nodes.into_keys().filter(|node| *node != router.local.id);
            join_all(others.map(|node| async move {
                if let Some(report) = router.links.report(node).await {
                    router.standings.hear(node, &report.groups);
                    for group in report.groups.iter().filter(|group| group.leading) {
                        router.leaders.hear_term(group.id, node, group.term);
                    }
                    let data = |group: &&GroupStatus| group.id != GroupId::CATALOG;
                    let led = report.groups.iter().filter(data).filter(|group| group.leading);
                    let (low, led) = (report.disk.low, led.count());
                    let heard = Heard { low, led, at: Instant::now() };
                    self.heard.lock().insert(node, heard);
                }
            }))
            .await;
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    async fn judge(&self) {
        let mut changes = self.router.local.replication.disk_lows();
        let mut judge = Judge::new(self.router.local.clone(), self.succession.clone());
        loop {
            let lows = self.lows();
            judge.round(&lows);
            // At the edge of the reserve every moment counts.
            let pause = if lows.values().any(|low| *low) { JUDGE_EVERY } else { ASK_EVERY };
            drop(timeout(pause, changes.changed()).await);
        }
    }

    /// Whether each node that is there is short of space.
    fn lows(&self) -> BTreeMap<u64, bool> {
        let router = &self.router;
        let mut heard = self.heard.lock();
        heard.retain(|_, heard| heard.at.elapsed() < HEARD_MAX);
        self.succession.set_led(heard.iter().map(|(node, heard)| (*node, heard.led)).collect());
        let mut lows: BTreeMap<u64, bool> =
            heard.iter().map(|(node, heard)| (*node, heard.low)).collect();
        lows.insert(router.local.id, router.local.replication.disk().low);
        lows
    }
}

struct Judge {
    local: Arc<LocalNode>,
    succession: Arc<Succession>,
    /// Since when a leadership is to be handed over.
    leaving: BTreeMap<GroupId, Instant>,
    moving: Option<JoinHandle<()>>,
}

impl Judge {
    fn new(local: Arc<LocalNode>, succession: Arc<Succession>) -> Judge {
        Judge { local, succession, leaving: BTreeMap::new(), moving: None }
    }

    fn round(&mut self, lows: &BTreeMap<u64, bool>) {
        let short = lows.iter().filter(|(_, low)| **low).map(|(node, _)| *node);
        self.succession.set_unfit(Unfit::Disk, short.collect());
        let own = self.local.id;
        let mut moves = Vec::new();
        for status in self.local.replication.status() {
            let id = status.id;
            let Some(group) = self.local.group(id) else { continue };
            let verdict = match status.leading {
                true => verdict(own, &status.voters, lows),
                false => Verdict::TakeIn,
            };
            let short = match verdict {
                Verdict::TakeIn => {
                    self.leaving.remove(&id);
                    Vec::new()
                }
                Verdict::Refuse(on) => on,
                Verdict::HandOver(successors) => {
                    let successor = successors[usize::from(id.0) % successors.len()];
                    moves.push((id, successor));
                    let since = self.leaving.entry(id).or_insert_with(Instant::now);
                    if since.elapsed() > HAND_OVER_MAX { vec![own] } else { Vec::new() }
                }
            };
            group.set_short_of_space(short);
        }
        if !moves.is_empty() && self.moving.as_ref().is_none_or(JoinHandle::is_finished) {
            self.moving = Some(tokio::spawn(hand_over(self.succession.clone(), moves)));
        }
    }
}

async fn hand_over(succession: Arc<Succession>, moves: Vec<(GroupId, u64)>) {
    let moves = moves.into_iter();
    let why = "for want of disk space";
    join_all(moves.map(|(group, successor)| succession.hand_over(group, successor, why))).await;
}

/// `lows`: of each node that is there, whether it is short of space.
fn verdict(own: u64, voters: &BTreeSet<u64>, lows: &BTreeMap<u64, bool>) -> Verdict {
    let of = |short: bool| -> Vec<u64> {
        voters.iter().copied().filter(|node| lows.get(node) == Some(&short)).collect()
    };
    let (roomy, short) = (of(false), of(true));
    if short.is_empty() {
        return Verdict::TakeIn; // Whether a majority is there at all is Raft's to see.
    }
    if roomy.len() <= voters.len() / 2 {
        return Verdict::Refuse(short);
    }
    match short.contains(&own) {
        true => Verdict::HandOver(roomy),
        false => Verdict::TakeIn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QUOTA-37: refused for want of a majority with space, handed over for want of the leader's.
    #[test]
    fn quota_37_a_leader_refuses_only_without_a_majority_that_has_space() {
        use Verdict::*;
        const OWN: u64 = 1;
        // Nodes with space, nodes short of it; of three voters the others are away.
        for (roomy, short, expected) in [
            (&[1, 2, 3][..], &[][..], TakeIn),
            (&[1], &[], TakeIn),
            (&[1, 2], &[3], TakeIn),
            (&[2, 3], &[1], HandOver(vec![2, 3])),
            (&[1], &[2, 3], Refuse(vec![2, 3])),
            (&[1], &[3], Refuse(vec![3])),
            (&[2], &[1], Refuse(vec![1])),
            (&[], &[1, 2, 3], Refuse(vec![1, 2, 3])),
            (&[1, 2, 3], &[4], TakeIn),
        ] {
            let lows = roomy.iter().map(|node| (*node, false));
            let lows = lows.chain(short.iter().map(|node| (*node, true))).collect();
            let found = verdict(OWN, &[1, 2, 3].into(), &lows);
            assert_eq!(found, expected, "space on {roomy:?}, short of it {short:?}");
        }
        assert_eq!(verdict(OWN, &[1].into(), &[(1, true)].into()), Refuse(vec![1]));
    }
}
