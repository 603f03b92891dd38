//! What is drawn for a topic and its subscriptions.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::act::{How, Pick};

#[derive(Clone, Debug)]
pub enum Act {
    Publish(Vec<Draft>),
    Subscribe,
    Unsubscribe(Pick),
    Put {
        on: Pick,
        name: u8,
        take: Take,
        make: Option<Make>,
    },
    Remove {
        on: Pick,
        name: u8,
    },
    Receive {
        on: Pick,
        dead: bool,
        count: u32,
    },
    Settle {
        on: Pick,
        pick: Pick,
        how: How,
    },
    /// A settlement and a publish as one; spoiled: with one more that must be refused.
    Commit {
        drafts: Vec<Draft>,
        on: Pick,
        pick: Pick,
        how: How,
        spoiled: bool,
    },
    TopicTtl(Option<u64>),
    OwnTtl(Pick, Option<u64>),
    Flags(Pick, bool, bool),
    /// How much an entry may match from here on.
    Pace(Option<u64>),
    FireAll,
    Sweep,
    Restart,
    /// Of a subscription, or of the topic.
    Window(Option<Pick>, Option<u64>),
    Touch(Option<Pick>),
    /// By somebody who knows of the last use, or of one so many ms earlier.
    Seal(Option<Pick>, u64),
    /// Six minutes under a leader, and then that.
    Age(Option<Pick>),
}

#[derive(Clone, Debug)]
pub struct Draft {
    pub n: i64,
    pub ttl: Option<u64>,
    pub due: Option<u64>,
}

/// What a rule takes.
#[derive(Clone, Copy, Debug)]
pub enum Take {
    All,
    No,
    Equal(i64),
    Above(i64),
    Fails,
}

/// What a rule makes of it.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    Next,
    Gone,
    Fails,
}

pub fn acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let gap = prop_oneof![6 => Just(0u64), 2 => select(vec![1, 500, 1000]), 1 => Just(6000)];
    vec((gap, act()), 1..60)
}

fn act() -> impl Strategy<Value = Act> {
    let ttl = || option::weighted(0.5, select(vec![1000, 2000, 5000]));
    let draft = || {
        (0..4i64, ttl(), option::weighted(0.2, select(vec![0, 500, 2000])))
            .prop_map(|(n, ttl, due)| Draft { n, ttl, due })
    };
    let take = prop_oneof![
        3 => Just(Take::All),
        1 => Just(Take::No),
        2 => (0..4i64).prop_map(Take::Equal),
        2 => (0..3i64).prop_map(Take::Above),
        1 => Just(Take::Fails),
    ];
    let make = option::weighted(
        0.4,
        prop_oneof![2 => Just(Make::Next), 1 => Just(Make::Gone), 1 => Just(Make::Fails)],
    );
    let how = || {
        prop_oneof![
            4 => Just(How::Complete),
            2 => Just(How::Abandon(None)),
            1 => Just(How::Defer(Some(2))),
            1 => Just(How::DeadLetter { reason: Some(1), description: None, property: None }),
            1 => Just(How::Release),
        ]
    };
    let flags = any::<(bool, bool)>();
    let which = || option::of(any::<Pick>());
    prop_oneof![
        12 => vec(draft(), 1..4).prop_map(Act::Publish),
        3 => Just(Act::Subscribe),
        1 => any::<Pick>().prop_map(Act::Unsubscribe),
        6 => (any::<Pick>(), 0..4u8, take, make)
            .prop_map(|(on, name, take, make)| Act::Put { on, name, take, make }),
        2 => (any::<Pick>(), 0..4u8).prop_map(|(on, name)| Act::Remove { on, name }),
        8 => (any::<Pick>(), prop::bool::weighted(0.3), 1..4u32)
            .prop_map(|(on, dead, count)| Act::Receive { on, dead, count }),
        8 => (any::<Pick>(), any::<Pick>(), how())
            .prop_map(|(on, pick, how)| Act::Settle { on, pick, how }),
        5 => (vec(draft(), 1..4), any::<Pick>(), any::<Pick>(), how(), any::<bool>()).prop_map(
            |(drafts, on, pick, how, spoiled)| Act::Commit { drafts, on, pick, how, spoiled }
        ),
        1 => ttl().prop_map(Act::TopicTtl),
        1 => (any::<Pick>(), ttl()).prop_map(|(on, ttl)| Act::OwnTtl(on, ttl)),
        1 => (any::<Pick>(), flags).prop_map(|(on, (dead, errors))| Act::Flags(on, dead, errors)),
        4 => option::weighted(0.8, select(vec![1, 60, 200, 1000])).prop_map(Act::Pace),
        3 => Just(Act::FireAll),
        1 => Just(Act::Sweep),
        1 => Just(Act::Restart),
        2 => (which(), option::weighted(0.8, select(vec![300_000, 600_000])))
            .prop_map(|(on, window)| Act::Window(on, window)),
        1 => which().prop_map(Act::Touch),
        1 => (which(), select(vec![0, 0, 1])).prop_map(|(on, earlier)| Act::Seal(on, earlier)),
        1 => which().prop_map(Act::Age),
    ]
}
