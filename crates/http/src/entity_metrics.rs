//! Metrics of entities, as text. The recorder keeps what it was told for ever, and entities come and go: so what is
//! told of them is written when it is asked for, from the node's tallies.

use std::fmt::Write as _;

use domain::{Counts, Deed, LATE_MS, Tally, namespace_of, told_name};
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use service::{EntityDepth, EntitySamples};

/// Of all entities without metrics of their own. No entity can have such a name (ENT-1).
const OTHERS: &str = "(others)";
/// Of entities that are gone.
const GONE: &str = "(gone)";

/// What a series tells of what it is told.
type Figure<T> = fn(&T) -> u64;

/// Counters of an entity.
struct Family {
    name: &'static str,
    unit: Unit,
    help: &'static str,
    /// What tells its series apart beside the entity; empty: there is one.
    label: &'static str,
    series: &'static [(&'static str, Figure<Tally>)],
}

const FAMILIES: &[Family] = &[
    Family {
        name: "mayfly_entity_sent_messages_total",
        unit: Unit::Count,
        help: "Messages accepted by the `entity`; by a subscription, copies.",
        label: "",
        series: &[("", |tally| tally.of(Deed::Accepted))],
    },
    Family {
        name: "mayfly_entity_sent_bytes_total",
        unit: Unit::Bytes,
        help: "Bytes of messages accepted by the `entity`.",
        label: "",
        series: &[("", |tally| tally.accepted_bytes)],
    },
    Family {
        name: "mayfly_entity_duplicate_messages_total",
        unit: Unit::Count,
        help: "Messages sent to the `entity` again, and not stored again.",
        label: "",
        series: &[("", |tally| tally.of(Deed::Duplicate))],
    },
    Family {
        name: "mayfly_entity_delivered_messages_total",
        unit: Unit::Count,
        help: "Deliveries from the `entity`, those of dead letters included.",
        label: "",
        series: &[("", |tally| tally.of(Deed::Delivered))],
    },
    Family {
        name: "mayfly_entity_delivered_bytes_total",
        unit: Unit::Bytes,
        help: "Bytes of deliveries from the `entity`.",
        label: "",
        series: &[("", |tally| tally.delivered_bytes)],
    },
    Family {
        name: "mayfly_entity_settled_messages_total",
        unit: Unit::Count,
        help: "Deliveries from the `entity` that ended as their receiver said, by `settlement`: complete, \
               complete_on_delivery, abandon, release, defer, dead_letter.",
        label: "settlement",
        series: &[
            ("complete", |tally| tally.of(Deed::Completed)),
            ("complete_on_delivery", |tally| tally.of(Deed::CompletedOnDelivery)),
            ("abandon", |tally| tally.of(Deed::Abandoned)),
            ("release", |tally| tally.of(Deed::Released)),
            ("defer", |tally| tally.of(Deed::Deferred)),
            ("dead_letter", |tally| tally.of(Deed::DeadLetteredByReceiver)),
        ],
    },
    Family {
        name: "mayfly_entity_locks_lost_total",
        unit: Unit::Count,
        help: "Deliveries from the `entity` whose lock ended before they were settled.",
        label: "",
        series: &[("", |tally| tally.of(Deed::LockLapsed))],
    },
    Family {
        name: "mayfly_entity_locks_renewed_total",
        unit: Unit::Count,
        help: "Locks of messages of the `entity` that were renewed; not those of sessions.",
        label: "",
        series: &[("", |tally| tally.of(Deed::LockRenewed))],
    },
    Family {
        name: "mayfly_entity_dead_lettered_messages_total",
        unit: Unit::Count,
        help: "Messages that became dead letters of the `entity`, by `reason`: expired, max_delivery_count, receiver, \
               unforwarded, rule.",
        label: "reason",
        series: &[
            ("expired", |tally| tally.of(Deed::DeadLetteredExpired)),
            ("max_delivery_count", |tally| tally.of(Deed::DeadLetteredExhausted)),
            ("receiver", |tally| tally.of(Deed::DeadLetteredByReceiver)),
            ("unforwarded", |tally| tally.of(Deed::DeadLetteredUnforwarded)),
            ("rule", |tally| tally.of(Deed::DeadLetteredByRule)),
        ],
    },
    Family {
        name: "mayfly_entity_expired_messages_total",
        unit: Unit::Count,
        help: "Messages of the `entity` that were dropped at the end of their time to live.",
        label: "",
        series: &[("", |tally| tally.of(Deed::Expired))],
    },
    Family {
        name: "mayfly_entity_activated_messages_total",
        unit: Unit::Count,
        help: "Scheduled messages of the `entity` whose time came.",
        label: "",
        series: &[("", |tally| tally.of(Deed::Activated))],
    },
    Family {
        name: "mayfly_entity_removed_messages_total",
        unit: Unit::Count,
        help: "Messages that left the `entity` unreceived, by `how`: cancelled, deleted in a batch, forwarded, or \
               published by a topic.",
        label: "how",
        series: &[
            ("cancelled", |tally| tally.of(Deed::Cancelled)),
            ("deleted", |tally| tally.of(Deed::Deleted)),
            ("forwarded", |tally| tally.of(Deed::Forwarded)),
            ("published", |tally| tally.of(Deed::Published)),
        ],
    },
];

/// Of all entities that ever were.
const TOTALS: &[Family] = &[
    Family {
        name: "mayfly_messages_accepted_total",
        unit: Unit::Count,
        help: "Messages that entities accepted, copies in subscriptions included.",
        label: "",
        series: &[("", |tally| tally.of(Deed::Accepted))],
    },
    Family {
        name: "mayfly_messages_ended_total",
        unit: Unit::Count,
        help: "Messages that left entities, by `end`: completed, cancelled, expired, deleted, forwarded.",
        label: "end",
        series: &[
            ("completed", |tally| tally.of(Deed::Completed) + tally.of(Deed::CompletedOnDelivery)),
            ("cancelled", |tally| tally.of(Deed::Cancelled)),
            ("expired", |tally| tally.of(Deed::Expired)),
            ("deleted", |tally| tally.of(Deed::Deleted)),
            ("forwarded", |tally| tally.of(Deed::Forwarded)),
        ],
    },
];

const LATENESS: &str = "mayfly_entity_timer_lateness_seconds";
const LATENESS_HELP: &str =
    "Deadline to applied expiry, schedule or end of a lock, by `entity`; from its first on.";
const MESSAGES: &str = "mayfly_entity_messages";
const MESSAGES_HELP: &str = "Messages stored in the `entity`, by `state`: active (locked ones included), scheduled, \
                             deferred, dead_lettered, transfer, transfer_dead_lettered.";
const SIZE: &str = "mayfly_entity_stored_bytes";
const SIZE_HELP: &str = "Bytes of messages stored in the `entity`.";
const OLDEST: &str = "mayfly_entity_oldest_message_age_seconds";
const OLDEST_HELP: &str = "Since the message of the `entity` was enqueued that a receiver would get first; not told if \
                           there is none, nor where messages are received by session.";
const CONSUMERS: &str = "mayfly_entity_consumers";
const CONSUMERS_HELP: &str = "Receivers attached to the `entity` or its dead-letter queue.";
const SHOWN: &str = "mayfly_entities_shown";
const SHOWN_HELP: &str =
    "Entities that this node tells of by name; at `metrics.entities_max`, others are summed.";

const STATES: [(&str, Figure<Counts>); 6] = [
    ("active", |counts| counts.active),
    ("scheduled", |counts| counts.scheduled),
    ("deferred", |counts| counts.deferred),
    ("dead_lettered", |counts| counts.dead_lettered),
    ("transfer", |counts| counts.transfer),
    ("transfer_dead_lettered", |counts| counts.transfer_dead_lettered),
];

/// Describes what is told of entities to the installed recorder.
pub fn describe() {
    for Family { name, unit, help, .. } in FAMILIES.iter().chain(TOTALS) {
        describe_counter!(*name, *unit, *help);
    }
    describe_histogram!(LATENESS, Unit::Seconds, LATENESS_HELP);
    describe_gauge!(MESSAGES, Unit::Count, MESSAGES_HELP);
    describe_gauge!(SIZE, Unit::Bytes, SIZE_HELP);
    describe_gauge!(OLDEST, Unit::Seconds, OLDEST_HELP);
    describe_gauge!(CONSUMERS, Unit::Count, CONSUMERS_HELP);
    describe_gauge!(SHOWN, Unit::Count, SHOWN_HELP);
}

/// The labels of an entity by its name in all the cluster; the default namespace needs none (NS-1).
fn labels(name: &str) -> String {
    let (namespace, told) = (namespace_of(name), escaped(told_name(name)));
    match namespace.is_default() {
        true => format!("entity=\"{told}\""),
        false => format!("entity=\"{told}\",namespace=\"{namespace}\""),
    }
}

/// What a label's value may not hold is written as Prometheus has it.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Everything, behind what the recorder tells.
pub(crate) fn append(text: &mut String, samples: &EntitySamples) {
    let mut tallies: Vec<(String, &Tally)> =
        samples.own.iter().map(|own| (labels(&own.name), &own.tally)).collect();
    tallies.push((labels(OTHERS), &samples.others.0));
    tallies.push((labels(GONE), &samples.gone));
    for family in FAMILIES {
        family.head(text);
        for (of, tally) in &tallies {
            family.series(text, Some(of), tally);
        }
    }
    for family in TOTALS {
        family.head(text);
        family.series(text, None, &samples.total);
    }
    lateness(text, &tallies);
    let own = samples.own.iter().filter_map(|own| Some((labels(&own.name), own.depth.as_ref()?)));
    let mut depths: Vec<(String, &EntityDepth)> = own.collect();
    let told = depths.len();
    depths.push((labels(OTHERS), &samples.others.1));
    gauges(text, &depths, told);
    head(text, SHOWN, "gauge", SHOWN_HELP);
    line(text, SHOWN, "", &samples.own.len());
}

impl Family {
    fn head(&self, text: &mut String) {
        head(text, self.name, "counter", self.help);
    }

    /// `of`: the labels of an entity.
    fn series(&self, text: &mut String, of: Option<&str>, tally: &Tally) {
        for (value, count) in self.series {
            let label = (!self.label.is_empty()).then(|| format!("{}=\"{value}\"", self.label));
            let labels: Vec<String> = of.map(str::to_owned).into_iter().chain(label).collect();
            line(text, self.name, &labels.join(","), &count(tally));
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: &dyn std::fmt::Display) {
    let _ = match labels {
        "" => writeln!(text, "{name} {value}"),
        labels => writeln!(text, "{name}{{{labels}}} {value}"),
    };
}

fn lateness(text: &mut String, tallies: &[(String, &Tally)]) {
    head(text, LATENESS, "histogram", LATENESS_HELP);
    let name = |end| format!("{LATENESS}{end}");
    for (of, tally) in tallies.iter().filter(|(_, tally)| tally.late_count() > 0) {
        let mut below = 0;
        for (bound_ms, count) in LATE_MS.iter().zip(tally.late) {
            below += count;
            let labels = format!("{of},le=\"{}\"", *bound_ms as f64 / 1e3);
            line(text, &name("_bucket"), &labels, &below);
        }
        line(text, &name("_bucket"), &format!("{of},le=\"+Inf\""), &tally.late_count());
        line(text, &name("_sum"), of, &(tally.late_ms_sum as f64 / 1e3));
        line(text, &name("_count"), of, &tally.late_count());
    }
}

/// The first so many are entities, behind them stand sums.
fn gauges(text: &mut String, depths: &[(String, &EntityDepth)], entities: usize) {
    head(text, MESSAGES, "gauge", MESSAGES_HELP);
    for (of, depth) in depths {
        for (state, count) in STATES {
            let labels = format!("{of},state=\"{state}\"");
            line(text, MESSAGES, &labels, &count(&depth.counts));
        }
    }
    head(text, SIZE, "gauge", SIZE_HELP);
    for (of, depth) in depths {
        line(text, SIZE, of, &depth.size_bytes);
    }
    head(text, CONSUMERS, "gauge", CONSUMERS_HELP);
    for (of, depth) in depths {
        line(text, CONSUMERS, of, &depth.consumers);
    }
    head(text, OLDEST, "gauge", OLDEST_HELP);
    for (of, depth) in &depths[..entities] {
        if let Some(ms) = depth.oldest_ms {
            line(text, OLDEST, of, &(ms as f64 / 1e3));
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Span;
    use service::EntitySample;

    use super::*;

    #[test]
    fn an_entity_has_its_lines_and_what_is_summed_cannot_be_one() {
        let mut tally = Tally::default();
        tally.accepted(100);
        tally.late(Span(20));
        let depth = EntityDepth {
            counts: Counts { active: 3, ..Counts::default() },
            oldest_ms: Some(1_500),
            consumers: 2,
            ..EntityDepth::default()
        };
        let own =
            |name: &str, depth| EntitySample { name: name.to_owned(), tally: tally.clone(), depth };
        let samples = EntitySamples {
            own: vec![
                own("news/subscriptions/a\"b", Some(depth)),
                own("elsewhere", None),
                own("+team:elsewhere", None),
            ],
            others: Default::default(),
            gone: tally.clone(),
            total: tally.clone(),
        };
        let mut text = String::new();
        append(&mut text, &samples);
        for expected in [
            "mayfly_entity_sent_messages_total{entity=\"news/subscriptions/a\\\"b\"} 1",
            "mayfly_entity_sent_bytes_total{entity=\"(gone)\"} 100",
            "mayfly_entity_settled_messages_total{entity=\"(others)\",settlement=\"complete\"} 0",
            "mayfly_messages_ended_total{end=\"completed\"} 0",
            "mayfly_messages_accepted_total 1",
            "mayfly_entity_timer_lateness_seconds_bucket{entity=\"elsewhere\",le=\"0.01\"} 0",
            "mayfly_entity_timer_lateness_seconds_bucket{entity=\"elsewhere\",le=\"0.05\"} 1",
            "mayfly_entity_timer_lateness_seconds_sum{entity=\"elsewhere\"} 0.02",
            "mayfly_entity_messages{entity=\"news/subscriptions/a\\\"b\",state=\"active\"} 3",
            "mayfly_entity_oldest_message_age_seconds{entity=\"news/subscriptions/a\\\"b\"} 1.5",
            "mayfly_entity_sent_messages_total{entity=\"elsewhere\",namespace=\"team\"} 1",
            "mayfly_entities_shown 3",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
        }
        assert!(!text.contains("mayfly_entity_messages{entity=\"elsewhere\""), "{text}");
    }
}
