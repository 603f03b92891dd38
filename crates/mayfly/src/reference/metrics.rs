//! `docs/reference/metrics.md`: what the node describes to its recorder, as a page.

use std::collections::BTreeMap;
use std::sync::Mutex;

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};

use super::{cell, hold};
use crate::serve;

const HEAD: &str = "\
# Metrics

`GET /metrics` on a node's HTTP port answers in Prometheus' text format. Each node tells of itself; what is
told of a group's messages is told by the node that leads the group, so sums over all nodes count every
message once. Labels stand in backticks. Times are seconds, sizes bytes. Histograms have buckets
(`_bucket{le=…}`), a `_sum` and a `_count`.

What stands under Entities is told by name of as many as `metrics.entities_max` says, first come, first kept:
`entity` is the path as it is listed, as in `orders` or `news/Subscriptions/mail`, and `namespace` its namespace, which
those of the default one have not. All others are summed as
`(others)`; and what was counted of those that are gone stands as `(gone)`, which is no rate but keeps sums from falling.
Counters are of what a node decided as leader since its process started; gauges are told while it leads.

What to alert on is in [Monitoring](../operations/monitoring.md).";

/// By whose place in the node they are described.
const CHAPTERS: &[(&str, fn())] = &[
    ("Messages, timers, groups and clocks", service::metric::describe),
    ("Entities", http::describe_entity_metrics),
    ("Replication and the disk's space", replication::describe_metrics),
    ("The log's writer", serve::telemetry::describe),
    ("Disk and processor", serve::process::describe),
    ("Certificates", serve::certificate::describe),
    ("Refused proofs and the audit trail", audit::describe),
    ("Clients and their limits", limits::describe),
    ("Faults that clients meet", fault_rules::describe),
    ("Traced messages", spans::describe),
    ("Metrics that are pushed", otlp::describe),
    ("The process", http::describe_metrics),
];

/// Keeps what is described, a row of a table by each name, and records nothing.
#[derive(Default)]
struct Descriptions(Mutex<BTreeMap<String, String>>);

impl Descriptions {
    fn add(&self, kind: &str, name: &KeyName, unit: Option<Unit>, text: &str) {
        let unit = match unit {
            None | Some(Unit::Count) => String::new(),
            Some(unit) => format!(", {}", unit.as_str()),
        };
        let name = name.as_str().to_owned();
        let row = format!("| `{name}` | {kind}{unit} | {} |\n", cell(text));
        self.0.lock().expect("nobody panics while it is held").insert(name, row);
    }
}

impl Recorder for Descriptions {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.add("counter", &name, unit, &text);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.add("gauge", &name, unit, &text);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.add("histogram", &name, unit, &text);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (title, describe) in CHAPTERS {
        let descriptions = Descriptions::default();
        with_local_recorder(&descriptions, describe);
        let rows = descriptions.0.into_inner().expect("nobody panicked");
        page += &format!("\n\n## {title}\n\n| name | kind | what |\n|---|---|---|\n");
        page.extend(rows.into_values());
    }
    page
}

#[test]
fn reference_metrics_are_current() {
    hold("metrics.md", &page());
}
