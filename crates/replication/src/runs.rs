//! Which runs of nodes have ended, for certain.
//!
//! A node that is silent may stand still or be cut off, and goes on with its clients when that is over: so
//! silence says nothing here. What does: another run over the same data is heard, the run has said goodbye,
//! or its machine answers that nobody listens any more where it did.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use parking_lot::Mutex;
use tokio::sync::watch;

/// A run of a node, from its start to its end: drawn, so that no two of one node are the same.
pub type Run = NonZeroU32;

/// What is known of a node's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is heard. Every other one has ended.
    Runs(Run),
    /// It takes no more clients, and whom it had it has let go. It may still be heard.
    SaidGoodbye(Run),
    /// Whatever ran has ended, unless it is heard again.
    Absent,
}

/// What a node knows of the runs of all.
pub(crate) struct Runs {
    node: u64,
    run: Run,
    others: Mutex<BTreeMap<u64, Standing>>,
    changed: watch::Sender<()>,
}

impl Runs {
    /// Of this node, and of this run of it.
    pub fn new(node: u64, run: Run) -> Runs {
        Runs { node, run, others: Mutex::default(), changed: watch::Sender::new(()) }
    }

    pub fn own(&self) -> Run {
        self.run
    }

    /// Changes whenever runs may have ended that had not before.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// This run is its node.
    pub fn hear(&self, node: u64, run: Run) {
        let mut others = self.others.lock();
        if let Some(Standing::Runs(known) | Standing::SaidGoodbye(known)) = others.get(&node)
            && *known == run
        {
            return;
        }
        others.insert(node, Standing::Runs(run));
        drop(others);
        self.changed.send_replace(());
    }

    /// This run serves no clients any more.
    pub fn part(&self, node: u64, run: Run) {
        let standing = Standing::SaidGoodbye(run);
        if self.others.lock().insert(node, standing) != Some(standing) {
            self.changed.send_replace(());
        }
    }

    /// Nobody listens where the node did.
    pub fn miss(&self, node: u64) {
        if !self.is_gone(node) {
            self.others.lock().insert(node, Standing::Absent);
            self.changed.send_replace(());
        }
    }

    /// Whether no process of the node runs, which ended without a goodbye, as its machine says.
    pub fn is_absent(&self, node: u64) -> bool {
        self.others.lock().get(&node) == Some(&Standing::Absent)
    }

    /// Whether no run of the node serves clients, for certain.
    pub fn is_gone(&self, node: u64) -> bool {
        let standing = self.others.lock().get(&node).copied();
        matches!(standing, Some(Standing::SaidGoodbye(_) | Standing::Absent))
    }

    /// Whether this run has ended, as far as this node knows.
    pub fn has_ended(&self, node: u64, run: Run) -> bool {
        if node == self.node {
            return run != self.run;
        }
        match self.others.lock().get(&node) {
            None => false,
            Some(Standing::Runs(now)) => *now != run,
            Some(Standing::SaidGoodbye(_) | Standing::Absent) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: u64 = 2;

    fn run(number: u32) -> Run {
        Run::new(number).expect("not 0")
    }

    /// Each row: what is learnt of node 2, and which of its runs 1 and 2 have ended then.
    #[test]
    fn lock_28_a_run_has_ended_where_that_is_certain() {
        type Word = fn(&Runs);
        let hear_1: Word = |runs| runs.hear(NODE, run(1));
        let hear_2: Word = |runs| runs.hear(NODE, run(2));
        let part_1: Word = |runs| runs.part(NODE, run(1));
        let miss: Word = |runs| runs.miss(NODE);
        for (what, words, ended) in [
            ("nothing", &[][..], [false, false]),
            ("it is heard", &[hear_1], [false, true]),
            ("and heard again", &[hear_1, hear_1], [false, true]),
            ("another one is", &[hear_1, hear_2], [true, false]),
            ("it says goodbye", &[hear_1, part_1], [true, true]),
            ("and is still heard", &[hear_1, part_1, hear_1], [true, true]),
            ("and another one comes", &[hear_1, part_1, hear_1, hear_2], [true, false]),
            ("nobody listens", &[hear_1, miss], [true, true]),
            ("nobody ever did", &[miss], [true, true]),
            ("and then somebody does", &[hear_1, miss, hear_1], [false, true]),
            ("nobody listens after a goodbye", &[hear_1, part_1, miss, hear_1], [true, true]),
        ] {
            let runs = Runs::new(1, run(9));
            words.iter().for_each(|word| word(&runs));
            let found = [run(1), run(2)].map(|of| runs.has_ended(NODE, of));
            assert_eq!(found, ended, "{what}");
        }
    }

    #[test]
    fn lock_28_of_a_node_itself_every_other_run_has_ended() {
        let runs = Runs::new(1, run(9));
        assert!(!runs.has_ended(1, run(9)) && runs.has_ended(1, run(8)));
    }

    #[test]
    fn only_what_may_have_ended_a_run_is_told_of() {
        let runs = Runs::new(1, run(9));
        let mut changes = runs.changes();
        let mut is_told = |word: fn(&Runs)| {
            word(&runs);
            let told = changes.has_changed().expect("it lives");
            changes.mark_unchanged();
            told
        };
        assert!(is_told(|runs| runs.hear(NODE, run(1))));
        assert!(!is_told(|runs| runs.hear(NODE, run(1))));
        assert!(is_told(|runs| runs.miss(NODE)));
        assert!(!is_told(|runs| runs.miss(NODE)));
        assert!(is_told(|runs| runs.hear(NODE, run(1))));
        assert!(is_told(|runs| runs.part(NODE, run(1))));
        assert!(!is_told(|runs| runs.hear(NODE, run(1))));
        assert!(!is_told(|runs| runs.miss(NODE)));
    }
}
