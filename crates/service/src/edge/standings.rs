//! Whether each group can do anything: whether it has a leader that a majority confirms. Raft tells it
//! of groups with a replica here; of the others the leaders do themselves, once a second. That one knows
//! who led last says nothing: that node may be dead, or alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::GroupId;
use parking_lot::{Mutex, RwLock};
use replication::GroupStatus;
use tokio::time::Instant;

use crate::edge::catalog;
use crate::peer::LocalNode;

/// A leader that no majority confirmed for so long is none. An election after silence takes 1.4 to 1.6 s.
pub(crate) const CONFIRMED_MS_MAX: u64 = 3_000;
/// After so long without a leader requests are refused at once, and do not wait for one any more.
const LEADERLESS_AFTER: Duration = Duration::from_secs(4);
/// How often the groups are looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// What one look adds at most: a process that stood still has not seen the group without a leader.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// A leader, by the last word of whoever knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmed {
    pub leader: u64,
    pub term: u64,
    /// How long ago a majority confirmed it.
    pub ms: u64,
}

pub(crate) struct Standings {
    local: Arc<LocalNode>,
    words: Mutex<BTreeMap<GroupId, Word>>,
    silences: Mutex<BTreeMap<GroupId, Silence>>,
    /// Asked with every request.
    leaderless: RwLock<BTreeSet<GroupId>>,
}

/// What a leader said of itself.
#[derive(Clone, Copy)]
struct Word {
    leader: u64,
    term: u64,
    confirmed_at: Instant,
}

/// How long a group has been seen without a leader.
struct Silence {
    looked_at: Instant,
    seen: Duration,
}

impl Standings {
    pub fn new(local: Arc<LocalNode>) -> Standings {
        let (words, silences, leaderless) = Default::default();
        Standings { local, words, silences, leaderless }
    }

    /// Every group that this node routes to, and those with a replica here.
    pub fn groups(&self) -> BTreeSet<GroupId> {
        let here = self.local.replication.running();
        catalog::groups(&self.local.catalog()).into_keys().chain(here).collect()
    }

    /// The leader of each group, where a majority confirmed it lately.
    pub fn confirmed(&self) -> BTreeMap<GroupId, Confirmed> {
        let here = self.local.replication.status();
        let seen_here = here.iter().filter_map(|status| Some((status.id, confirmed(status)?)));
        let words = self.words.lock();
        let told = words.iter().map(|(group, word)| (*group, word.confirmed()));
        let mut leaders = BTreeMap::new();
        for (group, known) in seen_here.chain(told).filter(|(_, known)| known.is_recent()) {
            let newest = leaders.entry(group).or_insert(known);
            if known.term > newest.term {
                *newest = known;
            }
        }
        leaders
    }

    /// A node said what it leads.
    pub fn hear(&self, node: u64, groups: &[GroupStatus]) {
        let now = Instant::now();
        for status in groups.iter().filter(|status| status.leading) {
            let Some(Confirmed { leader, term, ms }) = confirmed(status) else { continue };
            let confirmed_at = now.checked_sub(Duration::from_millis(ms));
            let Some(confirmed_at) = confirmed_at.filter(|_| leader == node) else { continue };
            let word = Word { leader, term, confirmed_at };
            let mut words = self.words.lock();
            let last = words.entry(status.id).or_insert(word);
            if (term, confirmed_at) > (last.term, last.confirmed_at) {
                *last = word;
            }
        }
    }

    /// Whether the group is known to be without a leader: what it is asked would wait in vain. Not at
    /// a hand-over, nor at an election.
    pub fn is_leaderless(&self, group: GroupId) -> bool {
        // The last look may be half a second old: a leader that came since counts at once.
        self.leaderless.read().contains(&group) && !self.confirmed().contains_key(&group)
    }

    /// Looks at all groups, every [`LOOK_EVERY`].
    pub fn look(&self) {
        let (groups, led, now) = (self.groups(), self.confirmed(), Instant::now());
        let mut silences = self.silences.lock();
        silences.retain(|group, _| groups.contains(group));
        for group in groups {
            let silence = silences.entry(group).or_insert_with(|| Silence::new(now));
            silence.look(led.get(&group).map(|confirmed| confirmed.ms), now);
        }
        let long = silences.iter().filter(|(_, silence)| silence.seen >= LEADERLESS_AFTER);
        let leaderless: BTreeSet<GroupId> = long.map(|(group, _)| *group).collect();
        let mut known = self.leaderless.write();
        for group in leaderless.difference(&known) {
            tracing::warn!(%group, "no majority confirms a leader; what the group is asked is refused");
        }
        for group in known.difference(&leaderless) {
            tracing::info!(%group, "a majority confirms a leader again");
        }
        *known = leaderless;
    }
}

impl Confirmed {
    fn is_recent(&self) -> bool {
        self.ms <= CONFIRMED_MS_MAX
    }
}

impl Word {
    fn confirmed(&self) -> Confirmed {
        let ms = self.confirmed_at.elapsed().as_millis() as u64;
        Confirmed { leader: self.leader, term: self.term, ms }
    }
}

impl Silence {
    fn new(now: Instant) -> Silence {
        Silence { looked_at: now, seen: Duration::ZERO }
    }

    /// `confirmed_ms`: how long ago a majority confirmed a leader, if it did lately.
    fn look(&mut self, confirmed_ms: Option<u64>, now: Instant) {
        let since = now.saturating_duration_since(self.looked_at).min(LOOK_MAX);
        self.looked_at = now;
        let age = confirmed_ms.map_or(Duration::MAX, Duration::from_millis);
        self.seen = self.seen.saturating_add(since).min(age);
    }
}

/// What one node knows of a group's leader.
pub(crate) fn confirmed(status: &GroupStatus) -> Option<Confirmed> {
    let (leader, ms) = (status.leader?, status.confirmed_ms?);
    let known = Confirmed { leader, term: status.term, ms };
    known.is_recent().then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_leaderless_once_that_was_seen_for_long_enough() {
        let begun = Instant::now();
        for (what, looks, leaderless) in [
            ("an election", vec![(500, Some(600)), (1_000, Some(1_100)), (1_500, Some(10))], false),
            ("a hand-over", vec![(500, Some(500)), (1_000, Some(5))], false),
            ("nobody ever", (1..=8).map(|n| (n * 500, None)).collect(), true),
            ("nobody yet", (1..=7).map(|n| (n * 500, None)).collect(), false),
            (
                "a process that stood still for a minute",
                vec![(500, Some(5)), (60_500, None)],
                false,
            ),
            (
                "a minority: the leader is there and alone",
                {
                    let aging = (1..=8).map(|n| (n * 500, (n < 6).then_some(n * 500)));
                    aging.collect()
                },
                true,
            ),
        ] {
            let mut silence = Silence::new(begun);
            for (at_ms, confirmed_ms) in looks {
                silence.look(confirmed_ms, begun + Duration::from_millis(at_ms));
            }
            assert_eq!(silence.seen >= LEADERLESS_AFTER, leaderless, "{what}");
        }
    }
}
