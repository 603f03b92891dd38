//! What is told of which message, whichever node has what of it.

use domain::{
    AcceptedMessage, GroupId, LifeStep, MessageTexts, SequenceNumber, SubQueue, Timestamp,
};
use wire::native;

use super::*;

/// A step that happened at the time that is its entry's index as well.
fn event(at: u64, entity: &str, number: u64, step: LifeStep) -> MessageEvent {
    in_group(1, at, entity, number, step)
}

fn in_group(group: u16, at: u64, entity: &str, number: u64, step: LifeStep) -> MessageEvent {
    let (entity, number) = (entity.into(), SequenceNumber(number));
    let event = domain::MessageEvent { entity, sub: SubQueue::Main, number, step };
    native::message_event(GroupId(group), at, Timestamp(at), 1, &event)
}

fn texts(id: &str, session: &str) -> MessageTexts {
    let text = |text: &str| (!text.is_empty()).then(|| text.into());
    MessageTexts { message_id: text(id), session_id: text(session), ..MessageTexts::default() }
}

fn accepted(id: &str, hops: u32) -> LifeStep {
    let texts = texts(id, "").into();
    LifeStep::Accepted(AcceptedMessage { texts, hops, ..AcceptedMessage::default() }.into())
}

fn in_session(id: &str, session: &str) -> LifeStep {
    let texts = texts(id, session).into();
    LifeStep::Accepted(AcceptedMessage { texts, ..AcceptedMessage::default() }.into())
}

const COMPLETED: LifeStep = LifeStep::Completed { on_delivery: false };
const DEFERRED: LifeStep = LifeStep::Deferred;
const FORWARDED: LifeStep = LifeStep::Forwarded { serial: 1, position: 0 };

fn activated(scheduled_as: u64) -> LifeStep {
    let scheduled_as = SequenceNumber(scheduled_as);
    LifeStep::Activated { scheduled_as, due: Timestamp(1), expires_at: Timestamp::NEVER }
}

fn answer(events: Vec<MessageEvent>) -> v1::AskHistoryResponse {
    v1::AskHistoryResponse { recorded: true, events, ..Default::default() }
}

fn id(id: &str) -> By {
    By::MessageId(id.to_owned())
}

fn search(entity: &str, by: By, follow: bool) -> MessageSearch {
    let entity = entity.to_owned();
    let asked = v1::FindMessagesRequest { entity, by: Some(by), follow, ..Default::default() };
    MessageSearch::of(asked).expect("it says what is looked for")
}

fn times(told: &v1::FindMessagesResponse) -> Vec<u64> {
    told.steps.iter().filter_map(|step| Some(step.event.as_ref()?.at_ms)).collect()
}

fn events() -> Vec<MessageEvent> {
    vec![
        event(1, "first", 1, accepted("a", 0)),
        event(2, "other", 1, accepted("a", 0)),
        in_group(2, 2, "first", 1, FORWARDED),
        event(3, "orders", 7, accepted("a", 1)),
        event(4, "orders", 8, accepted("b", 0)),
        event(5, "orders", 9, accepted("", 0)),
        event(6, "orders", 7, DEFERRED),
        event(7, "orders", 10, in_session("s1", "s")),
        event(8, "orders", 9, COMPLETED),
        event(9, "orders", 10, COMPLETED),
        event(10, "orders", 11, in_session("s2", "s")),
        event(11, "prices/subscriptions/eur", 1, accepted("p", 0)),
    ]
}

/// Each row: where it is looked for, what, whether it is followed, and when the steps were that are told. The node has
/// all there is, as if it did not look itself.
#[test]
fn hist_7_what_is_told_is_of_the_messages_that_are_meant_and_of_no_other() {
    let number = By::SequenceNumber;
    let session = |id: &str| By::SessionId(id.to_owned());
    for (entity, by, follow, expected) in [
        ("orders", id("a"), false, &[3, 6][..]),
        ("orders", id("a"), true, &[1, 2, 3, 6]),
        ("ORDERS", number(7), true, &[1, 2, 3, 6]),
        ("orders", number(7), false, &[3, 6]),
        ("orders", id("b"), true, &[4]),
        ("orders", number(9), true, &[5, 8]),
        ("orders", session("s"), false, &[7, 9, 10]),
        ("prices", id("p"), false, &[11]),
        ("orders", id("c"), true, &[]),
        ("orders", number(1), true, &[]),
        ("absent", id("a"), true, &[]),
    ] {
        let mut search = search(entity, by.clone(), follow);
        let mut looked = Looked::merged(vec![answer(events())]);
        // It was forwarded from "first": that it went is told in a group whose entries are numbered anew.
        while search.learn(&looked) {
            looked = Looked::merged(vec![answer(events()), answer(events())]);
        }
        assert_eq!(times(&search.told(&looked)), expected, "{entity} {by:?} {follow}");
    }
}

#[test]
fn hist_7_what_one_node_lost_another_has_and_it_is_told_once() {
    let all = [
        event(1, "q", 1, accepted("a", 0)),
        event(2, "q", 1, DEFERRED),
        event(3, "q", 1, COMPLETED),
    ];
    let [came, deferred, done] = all;
    let mut search = search("q", id("a"), false);
    // The second node was started between, and knows nothing of the id.
    let looked =
        Looked::merged(vec![answer(vec![came.clone(), deferred.clone()]), answer(Vec::new())]);
    assert!(search.learn(&looked), "the place is new");
    let place = v1::MessagePlace { entity: "q".to_owned(), sequence_number: 1 };
    assert_eq!(search.question(5).places, [place]);
    let looked =
        Looked::merged(vec![answer(vec![came, deferred.clone()]), answer(vec![deferred, done])]);
    assert!(!search.learn(&looked));
    let told = search.told(&looked);
    assert_eq!(times(&told), [1, 2, 3]);
    assert!(told.steps.iter().all(|step| step.message_id == "a"));
}

#[test]
fn hist_7_an_entity_that_is_created_anew_has_other_messages_under_the_same_numbers() {
    let events = || {
        vec![
            event(1, "q", 1, accepted("old", 0)),
            event(2, "q", 2, accepted("done", 0)),
            event(3, "q", 2, COMPLETED),
            event(4, "q", 0, LifeStep::EntityDeleted),
            event(5, "q", 1, accepted("new", 0)),
            event(6, "q", 1, COMPLETED),
        ]
    };
    for (by, expected) in [
        (id("old"), &[1, 4][..]),
        (id("done"), &[2, 3]),
        (id("new"), &[5, 6]),
        (By::SequenceNumber(1), &[1, 4, 5, 6]),
    ] {
        let looked = Looked::merged(vec![answer(events())]);
        assert_eq!(times(&search("q", by.clone(), false).told(&looked)), expected, "{by:?}");
    }
}

#[test]
fn hist_7_a_scheduled_message_is_one_under_both_its_numbers() {
    let events = vec![
        event(1, "q", 5, accepted("a", 0)),
        event(2, "q", 9, activated(5)),
        event(3, "q", 9, COMPLETED),
    ];
    let looked = Looked::merged(vec![answer(events)]);
    for by in [id("a"), By::SequenceNumber(5), By::SequenceNumber(9)] {
        assert_eq!(times(&search("q", by, false).told(&looked)), [1, 2, 3]);
    }
}

#[test]
fn hist_7_of_too_many_steps_the_latest_are_told_and_that_there_are_more() {
    let asked = v1::FindMessagesRequest {
        entity: "q".to_owned(),
        by: Some(id("a")),
        steps_max: 2,
        ..Default::default()
    };
    let search = MessageSearch::of(asked).expect("it says what is looked for");
    let events = [(1, accepted("a", 0)), (2, DEFERRED), (3, COMPLETED)];
    let events = events.map(|(at, step)| event(at, "q", 1, step)).to_vec();
    let told = search.told(&Looked::merged(vec![answer(events)]));
    assert_eq!((times(&told), told.more), (vec![2, 3], true));
}

/// Each row: what nodes have of groups (group, first, last, since), which entries are missing, and since when all is
/// there.
#[test]
fn hist_4_what_no_node_has_is_said() {
    for (ranges, gaps, since) in [
        (vec![(1, 0, 9, 5)], vec![], None),
        (vec![(1, 4, 9, 50), (1, 6, 12, 60)], vec![], Some(50)),
        (vec![(1, 1, 4, 5), (1, 8, 9, 60), (2, 7, 7, 40)], vec![(1, 5, 7)], Some(40)),
        (vec![], vec![], None),
    ] {
        let range = |(group, first_index, last_index, since_ms)| v1::HistoryRange {
            group,
            first_index,
            last_index,
            since_ms,
        };
        let ranges = ranges.into_iter().map(range).collect();
        let looked = Looked { ranges, ..Looked::default() };
        let found = looked.gaps().into_iter();
        let found: Vec<_> = found.map(|gap| (gap.group, gap.first_index, gap.last_index)).collect();
        assert_eq!((found, looked.since_ms()), (gaps, since));
    }
}

#[test]
fn hist_7_whoever_does_not_say_what_he_looks_for_is_refused() {
    for (entity, by) in [
        ("", Some(id("a"))),
        ("q", None),
        ("q", Some(id(""))),
        ("q", Some(By::SessionId("".into()))),
    ] {
        let entity = entity.to_owned();
        let asked = v1::FindMessagesRequest { entity, by, ..Default::default() };
        assert!(MessageSearch::of(asked).is_err());
    }
}

fn locked(nonce: u64) -> LifeStep {
    let (until, receiver) = (Timestamp(9), domain::ReceiverId::new(1, None, 1, 1));
    LifeStep::Locked { nonce, until, delivery_count: 0, receiver }
}

/// Each row: what happened, and who is said to have done it.
#[test]
fn hist_8_a_step_is_told_with_who_asked_for_it_and_no_other() {
    let token = |nonce| domain::LockToken { sequence: SequenceNumber(1), nonce }.to_string();
    let noted = |deed: v1::NotedDeed, nonce: u64, who: &str| v1::NotedActor {
        // As a client wrote it.
        entity: "Q".to_owned(),
        sequence_number: 1,
        deed: deed.into(),
        lock_token: if nonce == 0 { String::new() } else { token(nonce) },
        actor: Some(v1::MessageActor { connection: who.to_owned(), key_name: String::new() }),
    };
    let actors = || {
        vec![
            noted(v1::NotedDeed::Sent, 0, "sender"),
            noted(v1::NotedDeed::Received, 5, "first"),
            noted(v1::NotedDeed::Renewed, 5, "renewer"),
            noted(v1::NotedDeed::Settled, 5, "first"),
            noted(v1::NotedDeed::Received, 6, "second"),
            noted(v1::NotedDeed::Settled, 6, "late"),
        ]
    };
    let renewed = LifeStep::LockRenewed { until: Timestamp(9) };
    let lapsed = LifeStep::LockLapsed { until: Timestamp(9), delivery_count: 1 };
    let dead = || LifeStep::DeadLettered { reason: "".into(), description: "".into(), due: None };
    for (steps, expected) in [
        (
            vec![accepted("a", 0), locked(5), renewed, COMPLETED],
            &["sender", "first", "renewer", "first"][..],
        ),
        // Forwarded from elsewhere: nobody sent it here.
        (vec![accepted("a", 1), locked(7)], &["", ""]),
        (vec![accepted("a", 0), locked(5), dead()], &["sender", "first", "first"]),
        // It lapsed: whoever comes too late has done nothing.
        (vec![accepted("a", 0), locked(6), lapsed, dead()], &["sender", "second", "", ""]),
    ] {
        let events = steps.into_iter().zip(1..).map(|(step, at)| event(at, "q", 1, step));
        let events = events.collect();
        let answer = v1::AskHistoryResponse { actors: actors(), ..answer(events) };
        let looked = Looked::merged(vec![answer]);
        for (follow, is_told) in [(true, true), (false, false)] {
            let told = search("q", id("a"), follow).told(&looked);
            let by = told.steps.iter().map(|step| step.by.clone().unwrap_or_default().connection);
            let expected = expected.iter().map(|who| if is_told { *who } else { "" });
            assert_eq!(by.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }
}
