//! The wheel against a model too plain to be wrong: a `BTreeMap` ordered by (deadline, arming).

use std::collections::BTreeMap;

use proptest::prelude::*;
use timer_wheel::{Fired, Handle, Wheel};

#[derive(Clone, Debug)]
enum Action {
    /// So far after now; a negative span is due already.
    Arm(i64),
    ArmAt(u64),
    /// Many at once, so that lists unfold.
    ArmMany {
        after: u64,
        step: u64,
        count: u16,
    },
    /// The n-th handle ever given, modulo their number: live, fired or cancelled.
    Cancel(usize),
    CancelNext,
    Advance {
        by: u64,
        count_max: usize,
    },
    AdvanceToNext {
        count_max: usize,
    },
}

fn span() -> impl Strategy<Value = u64> {
    // Every level of the wheel is as likely as any other.
    (0u32..44, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1))
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => span().prop_map(|after| Action::Arm(after as i64)),
        1 => (0i64..1000).prop_map(|ago| Action::Arm(-ago)),
        1 => prop_oneof![Just(0), Just(u64::MAX), any::<u64>()].prop_map(Action::ArmAt),
        1 => (span(), 0u64..200, 1u16..300)
            .prop_map(|(after, step, count)| Action::ArmMany { after, step, count }),
        4 => any::<usize>().prop_map(Action::Cancel),
        2 => Just(Action::CancelNext),
        4 => (span(), 0usize..40).prop_map(|(by, count_max)| Action::Advance { by, count_max }),
        4 => (0usize..40).prop_map(|count_max| Action::AdvanceToNext { count_max }),
    ]
}

/// Wheel and model side by side. A key is the order of arming.
struct Pair {
    now: u64,
    wheel: Wheel<usize>,
    model: BTreeMap<(u64, usize), Handle>,
    dues: Vec<u64>,
    handles: Vec<Handle>,
}

impl Pair {
    fn arm(&mut self, due: u64) {
        let key = self.dues.len();
        let handle = self.wheel.arm(key, due);
        self.model.insert((due, key), handle);
        self.dues.push(due);
        self.handles.push(handle);
    }

    fn cancel(&mut self, key: usize) {
        let expected = self.model.remove(&(self.dues[key], key)).map(|_| key);
        assert_eq!(self.wheel.cancel(self.handles[key]), expected);
    }

    fn advance(&mut self, to: u64, count_max: usize) {
        self.now = self.now.max(to);
        let mut expected = Vec::new();
        while expected.len() < count_max {
            match self.model.first_key_value() {
                Some((&(due, key), _)) if due <= self.now => {
                    self.model.pop_first();
                    expected.push(Fired { due, key });
                }
                _ => break,
            }
        }
        let mut fired = Vec::new();
        let more = self.wheel.advance(self.now, count_max, &mut fired);
        assert_eq!(fired, expected);
        assert_eq!(more, self.next().is_some_and(|due| due <= self.now));
    }

    fn next(&self) -> Option<u64> {
        self.model.first_key_value().map(|((due, _), _)| *due)
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Arm(after) => self.arm(self.now.saturating_add_signed(after)),
            Action::ArmAt(due) => self.arm(due),
            Action::ArmMany { after, step, count } => {
                let first = self.now.saturating_add(after);
                (0..u64::from(count)).for_each(|n| self.arm(first.saturating_add(n * step)));
            }
            Action::Cancel(any) if !self.dues.is_empty() => self.cancel(any % self.dues.len()),
            Action::Cancel(_) => (),
            Action::CancelNext => {
                if let Some(&(_, key)) = self.model.keys().next() {
                    self.cancel(key);
                }
            }
            Action::Advance { by, count_max } => {
                self.advance(self.now.saturating_add(by), count_max);
            }
            Action::AdvanceToNext { count_max } => {
                self.advance(self.next().unwrap_or(self.now), count_max);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn wheel_agrees_with_the_model(
        start in prop_oneof![Just(0), Just(1_700_000_000_000u64)],
        actions in prop::collection::vec((action(), any::<bool>()), 0..120),
    ) {
        let mut pair = Pair {
            now: start,
            wheel: Wheel::new(),
            model: BTreeMap::new(),
            dues: Vec::new(),
            handles: Vec::new(),
        };
        for (action, look) in actions {
            pair.apply(action);
            prop_assert_eq!(pair.wheel.len(), pair.model.len());
            // Looking unfolds: what follows must not depend on whether anybody looked.
            if look {
                prop_assert_eq!(pair.wheel.next_deadline(), pair.next());
            }
        }
        pair.advance(u64::MAX, usize::MAX);
        prop_assert!(pair.wheel.is_empty());
    }
}
