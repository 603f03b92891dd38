//! What holds between a topic and its subscriptions, read off the rows alone.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    EntityId, EntityRow, EntityState, Key, MemoryRows, Row, RuleCounts, SequenceNumber, Specifics,
    SubscriptionSpecifics, TopicSpecifics, Unmatched,
};

/// A topic's counts, size and bodies are those of its subscriptions.
pub fn check(rows: &MemoryRows, topic: EntityId, specifics: &TopicSpecifics) {
    let state = state(rows, topic);
    let counts = &state.counts;
    assert_eq!((counts.active, counts.deferred, counts.dead_lettered), (0, 0, 0), "ENT-9");

    let subscriptions = subscriptions(rows, topic);
    let listed: BTreeSet<EntityId> = rows
        .0
        .keys()
        .filter_map(|key| match key {
            Key::Subscription(of, subscription) if *of == topic => Some(*subscription),
            _ => None,
        })
        .collect();
    assert_eq!(listed, subscriptions.keys().copied().collect(), "the topic's list");
    assert_eq!(specifics.subscriptions as usize, subscriptions.len());

    let (mut all_rules, mut size) = (RuleCounts::default(), 0);
    for (id, (description, of)) in &subscriptions {
        let rules = rules(rows, *id);
        assert_eq!(of.rules, rules, "rules of {id:?} counted and stored");
        all_rules = all_rules.plus(rules);
        size += self::state(rows, *id).size_bytes;
        assert!(self::state(rows, *id).last_use <= state.last_use, "IDLE-2: {id:?} is used alone");
        let ttl = of.own_default_ttl.min(row(rows, topic).properties.default_ttl);
        assert_eq!(description.properties.default_ttl, ttl, "TTL-7 of {id:?}");
    }
    assert_eq!(specifics.rules, all_rules, "rules of the topic");
    check_bodies(rows, topic, state.size_bytes, size);
}

/// COUNT-3: the topic is charged for every copy. One body for all of them, and for what is scheduled.
fn check_bodies(rows: &MemoryRows, topic: EntityId, charged: u64, copies_bytes: u64) {
    let mut wanted: BTreeMap<SequenceNumber, u32> = BTreeMap::new();
    let (mut bodies, mut copies) = (BTreeSet::new(), BTreeMap::new());
    let (mut own, mut waiting) = (0, Unmatched::default());
    for (key, row) in &rows.0 {
        match (key, row) {
            (Key::Scheduled(of, number), Row::Scheduled(row)) if *of == topic => {
                wanted.insert(*number, 1);
                own += u64::from(row.size_bytes);
            }
            // RULE-41: it holds one share of its body until its matching is over.
            (Key::Unmatched(of, number), Row::Unmatched(row)) if *of == topic => {
                *wanted.entry(*number).or_default() += 1;
                own += u64::from(row.size_bytes);
                waiting.count += 1;
                waiting.bytes += u64::from(row.size_bytes);
                if waiting.count == 1 {
                    (waiting.head, waiting.since) = (*number, row.accepted_at);
                }
            }
            // FWD-14: sent via the topic.
            (Key::Message(queue, _), Row::Message(row)) if queue.entity == topic => {
                wanted.insert(row.body, 1);
                own += u64::from(row.size_bytes);
            }
            // Of subscriptions deleted and not swept yet as well.
            (Key::Message(queue, _), Row::Message(row))
                if topic_of(rows, queue.entity) == Some(topic) =>
            {
                *wanted.entry(row.body).or_default() += 1;
            }
            (Key::Body(of, number), _) if *of == topic => {
                bodies.insert(*number);
            }
            (Key::BodyCopies(of, number), Row::BodyCopies(count)) if *of == topic => {
                copies.insert(*number, *count);
            }
            _ => (),
        }
    }
    let known = state(rows, topic).unmatched;
    assert_eq!(known, waiting, "RULE-41: what waits, as the topic counts it");
    assert_eq!(charged, copies_bytes + own, "the topic's size");
    assert_eq!(bodies, wanted.keys().copied().collect(), "bodies of the topic");
    wanted.retain(|_, count| *count > 1);
    assert_eq!(copies, wanted, "copies that share a body");
}

fn topic_of(rows: &MemoryRows, subscription: EntityId) -> Option<EntityId> {
    match rows.0.get(&Key::Sweep(subscription)) {
        Some(Row::Sweep { topic }) => return *topic,
        Some(other) => panic!("{other:?}"),
        None => (),
    }
    match row(rows, subscription).specifics {
        Specifics::Subscription(SubscriptionSpecifics { topic, .. }) => Some(topic),
        Specifics::Queue | Specifics::Topic(_) => None,
    }
}

fn subscriptions(
    rows: &MemoryRows,
    topic: EntityId,
) -> BTreeMap<EntityId, (EntityRow, SubscriptionSpecifics)> {
    let of = |(key, row): (&Key, &Row)| match (key, row) {
        (Key::Entity(id), Row::Entity(row)) => match row.specifics {
            Specifics::Subscription(specifics) if specifics.topic == topic => {
                Some((*id, ((**row).clone(), specifics)))
            }
            _ => None,
        },
        _ => None,
    };
    rows.0.iter().filter_map(of).collect()
}

fn rules(rows: &MemoryRows, subscription: EntityId) -> RuleCounts {
    let mut counts = RuleCounts::default();
    let mut orders = BTreeSet::new();
    for (key, row) in &rows.0 {
        if let (Key::Rule(of, name), Row::Rule(rule)) = (key, row)
            && *of == subscription
        {
            assert_eq!(*name, rule.name.to_ascii_lowercase());
            assert!(orders.insert(rule.order), "two rules have place {}", rule.order);
            counts = counts.plus(rule.counts());
        }
    }
    counts
}

fn row(rows: &MemoryRows, entity: EntityId) -> &EntityRow {
    match rows.0.get(&Key::Entity(entity)) {
        Some(Row::Entity(row)) => row,
        other => panic!("{entity:?} has no description: {other:?}"),
    }
}

fn state(rows: &MemoryRows, entity: EntityId) -> &EntityState {
    match rows.0.get(&Key::EntityState(entity)) {
        Some(Row::EntityState(state)) => state,
        other => panic!("{entity:?} has no state: {other:?}"),
    }
}
