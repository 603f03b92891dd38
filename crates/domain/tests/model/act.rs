//! What may be asked, as it is drawn: picks stand for numbers and tokens, which are known only when
//! the request is made.

use domain::{DeadlineKind, EntityStatus};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// One of what is there at the time, if anything is.
pub type Pick = u16;

#[derive(Clone, Debug)]
pub struct Move {
    pub act: Act,
    /// Passes before it is asked, ms. Back: the entry's clock is behind by so much instead.
    pub gap: u64,
    pub back: bool,
    pub cut: Cut,
    pub origin: Option<Asked>,
}

/// What a request is gathered with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// In the entry of the one before.
    Same,
    Entry,
    Step,
    /// A step of its own, by a machine that has nothing decoded.
    Restart,
}

/// SEND-8.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub producer: u64,
    pub serial: u64,
    pub ordered: bool,
    pub retry: bool,
}

#[derive(Clone, Debug)]
pub enum Act {
    Send(Vec<Draft>),
    Take {
        dead: bool,
        count: u32,
        bytes: u32,
    },
    Settle {
        picks: Vec<(Pick, How)>,
        atomic: bool,
    },
    Renew(Vec<Pick>),
    Deferred {
        dead: bool,
        picks: Vec<Pick>,
    },
    Select {
        dead: bool,
        picks: Vec<Pick>,
    },
    Cancel(Vec<Pick>),
    /// Deletes what was enqueued so many ms before now, or before now.
    Delete {
        dead: bool,
        count: u32,
        before: Option<u64>,
    },
    Fire(DeadlineKind, u32),
    /// Names some locks, or all.
    FireLocks(Option<Vec<Pick>>),
    /// As an engine does it: all kinds, until there is no more.
    FireAll,
    Update(Change),
    Advance(u64),
    Touch,
    /// By somebody who knows of the last use, or of one so many ms earlier.
    Seal(u64),
    /// Six minutes under a leader, and then that.
    Age,
    /// One of few sessions, or the next.
    Accept {
        dead: bool,
        session: Option<u8>,
    },
    Session(Pick, InSession),
    /// Names every hold there is.
    FireSessions,
    /// Acts that can be part of a transaction.
    Commit(Vec<Act>),
}

/// What the holder of a session asks.
#[derive(Clone, Debug)]
pub enum InSession {
    Receive {
        count: u32,
        bytes: u32,
    },
    Renew,
    /// By a later epoch of the same receiver, to whom these arrived.
    Resume(Vec<Pick>),
    Release,
    SetState(Option<u8>),
    Deferred(Vec<Pick>),
    Delete {
        count: u32,
        before: Option<u64>,
    },
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct Draft {
    pub ttl: Option<u64>,
    /// From now, ms.
    pub due: Option<u64>,
    pub id: Option<u8>,
    pub session: Option<u8>,
    pub size: u32,
}

#[derive(Clone, Debug)]
pub enum How {
    Complete,
    Abandon(Option<u8>),
    Defer(Option<u8>),
    DeadLetter { reason: Option<u8>, description: Option<u8>, property: Option<u8> },
    Release,
    Withheld,
}

#[derive(Clone, Copy, Debug)]
pub enum Change {
    DefaultTtl(Option<u64>),
    Flag(bool),
    MaxDeliveryCount(u32),
    Status(EntityStatus),
    LockDuration(u64),
    Window(u64),
    Idle(Option<u64>),
}

pub fn moves() -> impl Strategy<Value = Move> {
    let gap = prop_oneof![
        30 => Just(0u64),
        15 => 1..20u64,
        10 => select(vec![250, 1000, 2500]),
        4 => select(vec![5000, 7500, 20_000]),
        1 => select(vec![60_000, 1_000_000]),
    ];
    let cut = prop_oneof![
        2 => Just(Cut::Same),
        2 => Just(Cut::Entry),
        4 => Just(Cut::Step),
        1 => Just(Cut::Restart),
    ];
    let back = prop::bool::weighted(0.05);
    (act(), gap, back, cut, option::weighted(0.15, asked()))
        .prop_map(|(act, gap, back, cut, origin)| Move { act, gap, back, cut, origin })
}

/// Several hundred messages at once.
pub fn large_send() -> impl Strategy<Value = Move> {
    vec(draft(), 250..500).prop_map(|drafts| Move {
        act: Act::Send(drafts),
        gap: 0,
        back: false,
        cut: Cut::Step,
        origin: None,
    })
}

fn asked() -> impl Strategy<Value = Asked> {
    (1..4u64, 0..9u64, any::<bool>(), any::<bool>())
        .prop_map(|(producer, serial, ordered, retry)| Asked { producer, serial, ordered, retry })
}

fn act() -> impl Strategy<Value = Act> {
    let dead = || prop::bool::weighted(0.25);
    let count = || prop_oneof![Just(1u32), 1..6u32, Just(u32::MAX)];
    let picks = || prop_oneof![3 => vec(any::<Pick>(), 1), 1 => vec(any::<Pick>(), 2..4)];
    let bytes = prop_oneof![4 => Just(u32::MAX), 1 => 0..60u32];
    let kind = select(DeadlineKind::ALL.to_vec());
    prop_oneof![
        14 => vec(draft(), 1..5).prop_map(Act::Send),
        12 => (dead(), count(), bytes)
            .prop_map(|(dead, count, bytes)| Act::Take { dead, count, bytes }),
        14 => (vec((any::<Pick>(), how()), 1..4), prop::bool::weighted(0.3))
            .prop_map(|(picks, atomic)| Act::Settle { picks, atomic }),
        2 => picks().prop_map(Act::Renew),
        5 => (dead(), picks()).prop_map(|(dead, picks)| Act::Deferred { dead, picks }),
        6 => (dead(), picks()).prop_map(|(dead, picks)| Act::Select { dead, picks }),
        2 => picks().prop_map(Act::Cancel),
        1 => (dead(), prop_oneof![4 => 1..4u32, 1 => Just(0), 1 => Just(4001)],
            option::of(select(vec![0, 1000, 20_000])))
            .prop_map(|(dead, count, before)| Act::Delete { dead, count, before }),
        3 => (kind, count()).prop_map(|(kind, count)| Act::Fire(kind, count)),
        2 => option::weighted(0.7, picks()).prop_map(Act::FireLocks),
        2 => Just(Act::FireAll),
        4 => change().prop_map(Act::Update),
        1 => select(vec![0, 1, 3000, 30_000]).prop_map(Act::Advance),
        7 => (prop::bool::weighted(0.15), option::weighted(0.4, 0..4u8))
            .prop_map(|(dead, session)| Act::Accept { dead, session }),
        14 => (any::<Pick>(), in_session()).prop_map(|(pick, act)| Act::Session(pick, act)),
        2 => Just(Act::FireSessions),
        9 => vec(operation(), 1..5).prop_map(Act::Commit),
        1 => Just(Act::Touch),
        1 => select(vec![0, 0, 1, 60_000]).prop_map(Act::Seal),
        2 => Just(Act::Age),
    ]
}

fn operation() -> impl Strategy<Value = Act> {
    let picks = || vec(any::<Pick>(), 1);
    prop_oneof![
        8 => vec(draft(), 1..3).prop_map(Act::Send),
        8 => vec((any::<Pick>(), how()), 1..3)
            .prop_map(|picks| Act::Settle { picks, atomic: false }),
        1 => picks().prop_map(Act::Renew),
        2 => picks().prop_map(Act::Cancel),
        1 => (any::<Pick>(), option::weighted(0.7, 0..3u8))
            .prop_map(|(pick, state)| Act::Session(pick, InSession::SetState(state))),
    ]
}

fn draft() -> impl Strategy<Value = Draft> {
    let ttl = option::weighted(0.4, select(vec![1, 5, 300, 1000, 3000, 20_000, u64::MAX]));
    let due = option::weighted(0.3, select(vec![0, 1, 300, 1000, 3000, 20_000]));
    let id = option::weighted(0.25, 0..6u8);
    let session = option::weighted(0.97, 0..4u8);
    (ttl, due, id, session, 10..40u32).prop_map(|(ttl, due, id, session, size)| Draft {
        ttl,
        due,
        id,
        session,
        size,
    })
}

fn in_session() -> impl Strategy<Value = InSession> {
    let count = || prop_oneof![Just(1u32), 1..6u32, Just(u32::MAX)];
    let picks = prop_oneof![3 => vec(any::<Pick>(), 1), 1 => vec(any::<Pick>(), 2..4)];
    let bytes = prop_oneof![4 => Just(u32::MAX), 1 => 0..60u32];
    prop_oneof![
        8 => (count(), bytes).prop_map(|(count, bytes)| InSession::Receive { count, bytes }),
        1 => Just(InSession::Renew),
        1 => vec(any::<Pick>(), 0..3).prop_map(InSession::Resume),
        3 => Just(InSession::Release),
        1 => option::weighted(0.7, 0..3u8).prop_map(InSession::SetState),
        2 => picks.prop_map(InSession::Deferred),
        1 => (prop_oneof![4 => 1..4u32, 1 => Just(0)], option::of(select(vec![0, 1000, 20_000])))
            .prop_map(|(count, before)| InSession::Delete { count, before }),
    ]
}

fn how() -> impl Strategy<Value = How> {
    let property = || option::weighted(0.4, 0..4u8);
    prop_oneof![
        3 => Just(How::Complete),
        4 => property().prop_map(How::Abandon),
        3 => property().prop_map(How::Defer),
        3 => (property(), property(), property()).prop_map(|(reason, description, property)| {
            How::DeadLetter { reason, description, property }
        }),
        2 => Just(How::Release),
        1 => Just(How::Withheld),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let status = prop_oneof![
        9 => Just(EntityStatus::Active),
        2 => Just(EntityStatus::Disabled),
        1 => Just(EntityStatus::SendDisabled),
        1 => Just(EntityStatus::ReceiveDisabled),
    ];
    prop_oneof![
        2 => option::weighted(0.7, select(vec![1000, 2000, 5000, 30_000])).prop_map(Change::DefaultTtl),
        2 => any::<bool>().prop_map(Change::Flag),
        2 => prop_oneof![1..4u32, Just(10), Just(0)].prop_map(Change::MaxDeliveryCount),
        9 => status.prop_map(Change::Status),
        1 => select(vec![5000, 6000, 60_000, 4999]).prop_map(Change::LockDuration),
        1 => select(vec![20_000, 60_000, 600_000]).prop_map(Change::Window),
        3 => option::weighted(0.9, select(vec![300_000, 300_000, 300_000, 299_999, 600_000]))
            .prop_map(Change::Idle),
    ]
}
