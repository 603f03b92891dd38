//! What does a rule cost a published message, and what do ten thousand of them?
//!
//! Estimate, made before measuring: a filter of four conditions is four look-ups in a map of eight
//! properties (20 ns each), a dozen operations on a stack (5 ns each), one LIKE over ten characters
//! (30 ns) and the stack itself (20 ns): 200 ns. An action copies the properties first (40 ns each) and
//! then sets two: 700 ns. Reading a filter's text allocates per token: 3 µs, once per rule. Correlation
//! filters of one shape: two look-ups and a hash (80 ns), a search among the hashes (20 ns for 10, 80 ns
//! for 10,000), and the check of the one that is found (100 ns): 200 ns against 260 ns. Trying each of
//! 10,000: 400 µs.
//!
//! Measured on two cores that others kept busy, so best and median of batches of 50:
//!
//! | what | best | median |
//! |---|---|---|
//! | match, four conditions | 344 ns | 350 ns |
//! | match, two conditions | 149 ns | 150 ns |
//! | act | 811 ns | 841 ns |
//! | read | 3.3 µs | 3.5 µs |
//! | correlation, by index: 10 filters | 215 ns | 220 ns |
//! | 10,000 | 463 ns | 756 ns |
//! | 100,000 | 792 ns | 2.8 µs |
//! | correlation, trying each: 10 filters | 666 ns | 674 ns |
//! | 10,000 | 707 µs | 1.7 ms |
//!
//! The estimate was low for the match of four conditions; what it missed has not been looked for.
//!
//! `cargo bench -p mayfly-benches --bench filter`; under `cargo test` it runs once, small.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use domain::{
    Action, Correlation, CorrelationIndex, Filter, MatchCost, Properties, Subject, SystemProperty,
    SystemValue, Value,
};

const FILTER: &str = "sys.Label = 'order' AND color IN ('red', 'green', 'blue') AND quantity > 10 \
                      AND customer LIKE 'north%'";
const SHORT: &str = "color = 'blue' AND quantity = 20";
const ACTION: &str = "SET quantity = quantity / 2; REMOVE priority; SET sys.CorrelationId = 'low'";

/// An order as the product's samples have them, with eight properties.
struct Order {
    properties: Properties,
}

impl Order {
    fn new(number: i64) -> Order {
        let text = |text: &str| Value::String(text.to_owned());
        let properties = [
            ("color", text("blue")),
            ("quantity", Value::Int(20)),
            ("priority", text("high")),
            ("customer", text("northwind")),
            ("country", text("de")),
            ("express", Value::Bool(true)),
            ("order", Value::Long(number)),
            ("price", Value::Double(9.99)),
        ];
        let properties = properties.into_iter().map(|(name, value)| (name.to_owned(), value));
        Order { properties: properties.collect() }
    }
}

impl Subject for Order {
    fn system(&self, property: SystemProperty) -> Option<SystemValue<'_>> {
        (property == SystemProperty::Subject).then_some(SystemValue::Text("order"))
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }
}

/// One per order number, as of consumers that each wait for their own.
fn correlation(number: i64) -> Correlation {
    let system = BTreeMap::from([(SystemProperty::Subject, "order".to_owned())]);
    let user = Properties::from([("order".to_owned(), Value::Long(number))]);
    Correlation::new(system, user).expect("a sound filter")
}

fn expressions(criterion: &mut Criterion) {
    let none = Properties::new();
    let order = Order::new(1);
    let filter = Filter::sql(FILTER, &none).expect("a sound filter");
    let short = Filter::sql(SHORT, &none).expect("a sound filter");
    let action = Action::sql(ACTION, &none).expect("a sound action");
    let mut draw = || 0;
    assert_eq!(filter.matches(&order, &mut draw), Ok(true));
    let mut group = criterion.benchmark_group("filter");
    group.bench_function("match", |b| {
        b.iter(|| filter.matches(black_box(&order), &mut draw));
    });
    group.bench_function("match-short", |b| {
        b.iter(|| short.matches(black_box(&order), &mut draw));
    });
    group.bench_function("act", |b| {
        b.iter(|| action.run(black_box(&order), &mut draw, &mut MatchCost::default()))
    });
    group.bench_function("read", |b| b.iter(|| Filter::sql(black_box(FILTER), &none)));
    group.finish();
}

fn correlations(criterion: &mut Criterion, count: i64) {
    let mut index = CorrelationIndex::default();
    let filters: Vec<Correlation> = (0..count).map(correlation).collect();
    filters.iter().enumerate().for_each(|(id, filter)| index.insert(id, filter.clone()));
    let mut group = criterion.benchmark_group("correlation");
    // Orders in no order: each is looked up where none was just now.
    let mut number = 0;
    let orders: Vec<Order> = (0..1024).map(|step| Order::new(step * 7919 % count)).collect();
    group.bench_function(BenchmarkId::new("index", count), |b| {
        b.iter(|| {
            number = (number + 1) % orders.len();
            black_box(index.matches(&orders[number], &mut MatchCost::default())).len()
        });
    });
    group.bench_function(BenchmarkId::new("each", count), |b| {
        b.iter(|| {
            filters
                .iter()
                .filter(|filter| filter.matches(black_box(&orders[0]), &mut MatchCost::default()))
                .count()
        });
    });
    group.finish();
}

/// Which of a thousand orders each of a thousand filters selects.
fn digest() -> u64 {
    let mut index = CorrelationIndex::default();
    (0..1000).for_each(|id| index.insert(id, correlation(id * 31 % 500)));
    let mut digest = 0u64;
    for number in 0..1000 {
        for id in index.matches(&Order::new(number), &mut MatchCost::default()) {
            digest = (digest.rotate_left(5) ^ id as u64).wrapping_mul(0x100_0000_01B3);
        }
    }
    digest
}

fn main() {
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let sizes: &[i64] = if measuring { &[10, 10_000, 100_000] } else { &[10] };
    println!("digest {:016x}", digest());

    let mut criterion = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2))
        .sample_size(10)
        .configure_from_args();
    expressions(&mut criterion);
    for &count in sizes {
        correlations(&mut criterion, count);
    }
    criterion.final_summary();
}
