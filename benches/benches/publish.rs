//! What does a publish cost a replica, to 1, 10 and 2,000 subscriptions, from log entry to rows?
//!
//! Estimate, made before measuring: a copy is a message row and its share of the subscription's state
//! row, some 0.3 µs each in a memtable, encoded and laid over twice: 1.5 µs. So 3 µs to one
//! subscription, with the body and the topic's state; 18 µs to ten; 3 ms to 2,000. With a correlation
//! filter on each of 2,000 subscriptions, one of which matches, the message is decoded and looked up:
//! 5 µs, not more.
//!
//! `cargo bench -p mayfly-benches --bench publish`; under `cargo test` it runs once, small.

use std::time::Duration;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion};
use domain::{
    Command, Conditions, CreateSubscription, CreateTopic, EntityId, Entry, GroupId, Machine,
    NewRule, Outcome, RuleFilter, Send, SubscriptionProperties, Timestamp, TopicCommand,
    TopicProperties, Value, subscription_path,
};
use store::{MachineRows, Options, RowStore};
use tempfile::TempDir;
use wire::{content, v1};

const GROUP: GroupId = GroupId(1);
const TOPIC: EntityId = EntityId(1);
const BODY_BYTES: usize = 1024;
const START_MS: u64 = 1_700_000_000_000;

/// A replica of one group that holds one topic.
struct Replica {
    store: RowStore,
    rows: MachineRows,
    machine: Machine,
    index: u64,
    _dir: TempDir,
}

impl Replica {
    /// `correlated`: each subscription takes messages of its own number only.
    fn new(subscriptions: u64, correlated: bool) -> Replica {
        let dir = tempfile::tempdir().expect("a directory");
        let store = RowStore::open(&dir.path().join("rows"), &Options::default()).expect("opened");
        let (rows, machine) = (store.machine(GROUP), Machine::reading(content::header));
        let mut replica = Replica { store, rows, machine, index: 0, _dir: dir };
        let properties =
            TopicProperties { max_size_megabytes: 81_920, ..TopicProperties::default() };
        let create = CreateTopic {
            entity: TOPIC,
            name: "bench".to_owned(),
            properties: Box::new(properties),
        };
        replica.apply(Command::Topic(TopicCommand::Create(create)));
        for number in 0..subscriptions {
            let filter = match correlated {
                false => RuleFilter::True,
                true => RuleFilter::Correlation(Conditions {
                    properties: [("to".to_owned(), Value::Long(number as i64))].into(),
                    ..Conditions::default()
                }),
            };
            let create = CreateSubscription {
                entity: EntityId(2 + number),
                topic: TOPIC,
                name: subscription_path("bench", &format!("s{number}")),
                properties: Box::new(SubscriptionProperties::default()),
                rule: Box::new(NewRule { filter, ..NewRule::default() }),
            };
            replica.apply(Command::Topic(TopicCommand::CreateSubscription(create)));
        }
        replica
    }

    /// One entry, decoded from its bytes as a follower does, in a step and a write of its own.
    fn apply(&mut self, command: Command) {
        let (at, seed) = (Timestamp(START_MS + self.index), [0; 16]);
        let entry = wire::encode_entry(&Entry { at, seed, commands: vec![command] });
        self.index += 1;
        let mut step = self.machine.step(&self.rows);
        let outcomes = step.apply(wire::decode_entry(entry).expect("an entry"));
        let writes = step.finish().writes;
        self.store.apply(GROUP, Vec::new(), writes, self.index, Bytes::new()).expect("written");
        assert!(!matches!(outcomes[0], Outcome::Refused(_)), "{outcomes:?}");
    }

    fn publish(&mut self) {
        let to = v1::Value { kind: Some(v1::value::Kind::LongValue(0)) };
        let message = v1::Message {
            body: Bytes::from(vec![0x5a; BODY_BYTES]),
            properties: [("to".to_owned(), to)].into(),
            ..v1::Message::default()
        };
        let messages = vec![content::new_message(message).expect("a message")];
        self.apply(Command::Send(Send { origin: None, entity: TOPIC, messages }));
    }
}

fn main() {
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(10)
        .configure_from_args();
    let mut group = criterion.benchmark_group("publish");
    let cases = [("all", 1, false), ("all", 10, false), ("all", 2000, false)];
    let cases = cases.into_iter().chain([("one of", 2000, true)]);
    for (takes, subscriptions, correlated) in cases.take(if measuring { 4 } else { 2 }) {
        let mut replica = Replica::new(subscriptions, correlated);
        group.bench_function(BenchmarkId::new(takes, subscriptions), |b| {
            b.iter(|| replica.publish());
        });
    }
    group.finish();
    criterion.final_summary();
}
