//! Rows under keys of their tables.

use super::*;

pub fn entity_state() -> impl Strategy<Value = EntityState> {
    let next = || of((at(), number()));
    let each = || [number(), number(), number(), number()];
    let numbers = (number(), each(), each(), number());
    let times = (of(at()), of(at()), at(), at());
    (numbers, any::<[u64; 30]>(), counts(), next(), next(), times).prop_map(
        |(numbers, n, counts, scheduled_next, fixed_next, times)| EntityState {
            next_sequence: numbers.0,
            fresh_head: numbers.1,
            returned: [n[0], n[1], n[25], n[26]],
            returned_low: numbers.2,
            available: [n[2], n[3], n[27], n[28]],
            dead_letter_deferred: n[4],
            transfer_dead_letter_deferred: n[29],
            counts,
            size_bytes: n[5],
            scheduled_next,
            fixed_next,
            derived_cursor: numbers.3,
            derived_next: times.0,
            duplicate_next: times.1,
            accessed_at: times.2,
            last_use: times.3,
            sessions: SessionTotals { free: n[6], free_low: times.3, turns: n[7], states: n[8] },
            forwarding: [9, 13, 17, 21].map(|from| forwarding(&n[from..])),
            unmatched: match n[24] % 2 {
                0 => Unmatched::default(),
                _ => Unmatched { count: n[5], bytes: n[6], head: numbers.3, since: times.2 },
            },
        },
    )
}

pub fn forwarding(n: &[u64]) -> Forwarding {
    Forwarding { serial: n[0], in_transit: n[1], parked: n[2], stuck: n[3] }
}

pub fn deadline_row() -> impl Strategy<Value = DeadlineRow> {
    (number(), any::<u32>()).prop_map(|(body, size_bytes)| DeadlineRow { body, size_bytes })
}

pub fn message_row() -> impl Strategy<Value = MessageRow> {
    let lifetime = prop_oneof![
        Just(Lifetime::Derived),
        (span(), at()).prop_map(|(ttl, expires_at)| Lifetime::Fixed { ttl, expires_at }),
        (span(), at()).prop_map(|(ttl, expires_at)| Lifetime::Inherited { ttl, expires_at }),
    ];
    let numbers = any::<(u32, u32, bool, bool, u32)>();
    let travel = of(travel().prop_map(Box::new));
    (number(), numbers, at(), lifetime, of(session()), overlay(), travel).prop_map(
        |(body, numbers, at, lifetime, session, overlay, travel)| {
            let (size_bytes, header_bytes, deferred, was_scheduled, delivery_count) = numbers;
            MessageRow {
                body,
                size_bytes,
                header_bytes,
                deferred,
                was_scheduled,
                delivery_count,
                enqueued_at: at,
                lifetime,
                session,
                overlay,
                travel,
            }
        },
    )
}

pub fn message_tables() -> impl Strategy<Value = (Key, Row)> {
    prop_oneof![
        (entity(), number(), content()).prop_map(|(e, n, c)| (Key::Body(e, n), Row::Body(c))),
        (queue(), number(), message_row())
            .prop_map(|(q, n, row)| (Key::Message(q, n), Row::Message(row))),
        (queue(), number()).prop_map(|(q, n)| (Key::Returned(q, n), Row::Returned)),
        (queue(), number(), any::<u64>(), at(), receiver()).prop_map(
            |(q, n, nonce, until, receiver)| {
                (Key::Lock(q, n), Row::Lock(LockRow { nonce, until, receiver }))
            }
        ),
        (
            entity(),
            number(),
            at(),
            at(),
            any::<(u32, u32)>(),
            of(span()),
            of(session()),
            of(travel())
        )
            .prop_map(
                |(e, n, due, accepted_at, (size_bytes, header_bytes), ttl, session, travel)| {
                    let row = ScheduledRow {
                        due,
                        accepted_at,
                        size_bytes,
                        header_bytes,
                        ttl,
                        session,
                        travel: travel.map(Box::new),
                    };
                    (Key::Scheduled(e, n), Row::Scheduled(row))
                }
            ),
        (entity(), kind(), at(), number(), of(deadline_row()))
            .prop_map(|(e, kind, at, n, row)| (Key::Deadline(e, kind, at, n), Row::Deadline(row))),
        (entity(), text(), at(), number()).prop_map(|(e, id, accepted_at, sequence)| {
            (Key::DuplicateId(e, id), Row::DuplicateId { accepted_at, sequence })
        }),
        (entity(), at(), text())
            .prop_map(|(e, at, id)| (Key::DuplicateTime(e, at, id), Row::DuplicateTime)),
    ]
}

fn entity_row() -> impl Strategy<Value = EntityRow> {
    (text(), queue_properties(), specifics(), at(), at()).prop_map(
        |(name, properties, specifics, created_at, updated_at)| EntityRow {
            name,
            properties,
            specifics,
            created_at,
            updated_at,
        },
    )
}

fn relocation_state() -> impl Strategy<Value = RelocationState> {
    let hidden = || {
        (entity_row(), entity_state())
            .prop_map(|(row, state)| HiddenEntity { row: Box::new(row), state: Box::new(state) })
    };
    prop_oneof![
        (any::<u16>(), hidden())
            .prop_map(|(to, hidden)| RelocationState::Departing { to: GroupId(to), hidden }),
        hidden().prop_map(|hidden| RelocationState::Arriving { hidden }),
        Just(RelocationState::Arrived),
        at().prop_map(|at| RelocationState::ArrivedAt { at }),
        any::<u16>().prop_map(|to| RelocationState::Gone { to: GroupId(to) }),
    ]
}

pub fn namespace_row() -> impl Strategy<Value = NamespaceRow> {
    let profiles = (profile(), prop::option::of(profile()));
    (text(), any::<(u64, bool)>(), at(), at(), authorization_rules(), profiles).prop_map(
        |(name, (request, ready), created_at, modified_at, authorization_rules, profiles)| {
            let state = if ready { NamespaceState::Ready } else { NamespaceState::Deleting };
            let (profile, next_profile) = profiles;
            NamespaceRow {
                name,
                request,
                created_at,
                modified_at,
                authorization_rules,
                state,
                profile,
                next_profile,
            }
        },
    )
}

pub fn document_row() -> impl Strategy<Value = DocumentRow> {
    (text(), text(), at(), at()).prop_map(|(name, text, created_at, modified_at)| DocumentRow {
        name,
        text: DocumentText(text),
        created_at,
        modified_at,
    })
}

pub fn profile() -> impl Strategy<Value = Profile> {
    prop::sample::select(Profile::ALL.to_vec())
}

pub fn other_tables() -> impl Strategy<Value = (Key, Row)> {
    prop_oneof![
        (at(), span(), any::<(u64, u64, u32)>(), at()).prop_map(
            |(last_at, clock_offset, (producers, cut, level), unbroken_since)| {
                let meta = Meta { last_at, clock_offset, producers, unbroken_since, cut, level };
                (Key::Meta, Row::Meta(meta))
            }
        ),
        (entity(), entity_row()).prop_map(|(e, row)| (Key::Entity(e), Row::Entity(Box::new(row)))),
        (entity(), any::<u64>(), relocation_state()).prop_map(|(e, number, state)| {
            (Key::Relocation(e), Row::Relocation(Box::new(RelocationRow { number, state })))
        }),
        (entity(), entity_state())
            .prop_map(|(e, row)| (Key::EntityState(e), Row::EntityState(Box::new(row)))),
        (entity(), of(entity())).prop_map(|(e, topic)| (Key::Sweep(e), Row::Sweep { topic })),
        (entity(), entity()).prop_map(|(e, s)| (Key::Subscription(e, s), Row::Subscription)),
        (entity(), new_rule(), at(), any::<u32>()).prop_map(|(e, rule, created_at, order)| {
            let NewRule { name, filter, action } = rule;
            let row = RuleRow { name, filter, action, created_at, order };
            (Key::Rule(e, row.name.clone()), Row::Rule(Box::new(row)))
        }),
        (entity(), number(), any::<u32>())
            .prop_map(|(e, n, copies)| (Key::BodyCopies(e, n), Row::BodyCopies(copies))),
        (entity(), number(), unmatched_row())
            .prop_map(|(e, n, row)| (Key::Unmatched(e, n), Row::Unmatched(Box::new(row)))),
        (any::<[u64; 3]>(), at()).prop_map(|([producer, first, highest], seen)| {
            (Key::Producer(producer), Row::Producer(ProducerRow { first, highest, seen }))
        }),
        (at(), any::<u64>()).prop_map(|(at, id)| (Key::ProducerSeen(at, id), Row::ProducerSeen)),
        (any::<(u64, u64)>(), outcome())
            .prop_map(|((id, serial), row)| (Key::Outcome(id, serial), Row::Outcome(row))),
        any::<(u128, u16, u8, u64, u32)>().prop_map(|n| {
            let row = ClusterRow {
                cluster_id: n.0,
                data_groups: n.1,
                replication_factor: n.2,
                next_entity: n.3,
                feature_level: n.4,
            };
            (Key::Cluster, Row::Cluster(row))
        }),
        (any::<u128>(), at(), any::<bool>()).prop_map(|(restore, begun_at, has_ended)| {
            (Key::Restoring, Row::Restoring(RestoringRow { restore, begun_at, has_ended }))
        }),
        vec((any::<(String, String)>(), at(), proptest::option::of(at())), 0..3).prop_map(
            |rules| {
                let row = |((name, text), added_at, ends_at)| FaultRuleRow {
                    name,
                    text,
                    added_at,
                    ends_at,
                };
                (Key::FaultRules, Row::FaultRules(rules.into_iter().map(row).collect()))
            }
        ),
        (any::<u16>(), vec((any::<u64>(), at()), 0..3)).prop_map(|(part, rows)| {
            let row = |(request, ended_at)| EndedCreationRow { request, ended_at };
            (Key::EndedCreations(part), Row::EndedCreations(rows.into_iter().map(row).collect()))
        }),
        namespace_row()
            .prop_map(|row| { (Key::Namespace(row.name.clone()), Row::Namespace(Box::new(row))) }),
        (text(), any::<(u64, bool)>(), span(), at()).prop_map(
            |(name, (request, is_sealed), window, used_until)| {
                let row = NamespaceIdleRow { request, window, used_until, is_sealed };
                (Key::NamespaceIdle(name), Row::NamespaceIdle(row))
            }
        ),
        document_row()
            .prop_map(|row| (Key::Document(row.name.clone()), Row::Document(Box::new(row)))),
        directory_row().prop_map(|row| (Key::Directory(row.name.clone()), Row::Directory(row))),
        (any::<u64>(), node_row()).prop_map(|(id, row)| (Key::Node(id), Row::Node(row))),
        (any::<u16>(), vec(any::<u64>(), 0..6)).prop_map(|(id, replicas)| {
            (Key::Group(GroupId(id)), Row::Group(GroupRow { replicas }))
        }),
        (any::<u64>(), 0..3_usize).prop_map(|(node, state)| {
            let states = [NodeState::Draining, NodeState::Maintenance, NodeState::Removed];
            (Key::NodeState(node), Row::NodeState(states[state]))
        }),
        any::<(u16, u64)>().prop_map(|(id, moves)| (Key::Moves(GroupId(id)), Row::Moves(moves))),
        (any::<u16>(), vec(any::<(u64, u32)>(), 0..4)).prop_map(|(id, directories)| {
            (Key::Founders(GroupId(id)), Row::Founders(directories))
        }),
        (any::<(u64, [u8; 32], Option<u64>)>(), at(), any::<Option<(u64, u64)>>()).prop_map(
            |((id, secret_hash, node), expires_at, used)| {
                let used = used.map(|(node, request)| TokenUse { node, at: expires_at, request });
                let row = JoinTokenRow { secret_hash, expires_at, node, used };
                (Key::JoinToken(id), Row::JoinToken(row))
            }
        ),
    ]
}

fn unmatched_row() -> impl Strategy<Value = UnmatchedRow> {
    (
        (at(), any::<(u32, u32, bool)>(), of(span()), of(session()), of(travel())),
        (
            entity(),
            of(any::<u32>()),
            any::<bool>(),
            of(evaluation_error()),
            vec(any::<u32>(), 0..4),
        ),
    )
        .prop_map(
            |(
                (accepted_at, (size_bytes, header_bytes, was_scheduled), ttl, session, travel),
                (subscription, order, plain, failed, actions),
            )| {
                let progress = MatchProgress { subscription, order, plain, failed, actions };
                let travel = travel.map(Box::new);
                UnmatchedRow {
                    accepted_at,
                    size_bytes,
                    header_bytes,
                    ttl,
                    session,
                    was_scheduled,
                    travel,
                    progress,
                }
            },
        )
}

fn evaluation_error() -> impl Strategy<Value = EvaluationError> {
    (any::<bool>(), text()).prop_map(|(of_filter, text)| {
        let part = if of_filter { RulePart::Filter } else { RulePart::Action };
        EvaluationError { part, text }
    })
}

/// A row under a key of its table.
pub fn row() -> impl Strategy<Value = (Key, Row)> {
    prop_oneof![message_tables(), session_tables(), forward_tables(), other_tables()]
}

pub fn forward_tables() -> impl Strategy<Value = (Key, Row)> {
    let arrived = (any::<(u32, u32)>(), refused())
        .prop_map(|((count, done), refused)| ArrivedShipment { count, done, refused });
    prop_oneof![
        (queue(), any::<u64>(), shipment_destination(), vec(number(), 0..4)).prop_map(
            |(q, serial, destination, numbers)| {
                let row = ShipmentRow { destination, numbers };
                (Key::Shipment(q, serial), Row::Shipment(row))
            }
        ),
        (queue(), any::<(bool, u64)>(), vec(number(), 0..4)).prop_map(
            |(q, (stays, turn), numbers)| (Key::Parked(q, stays, turn), Row::Parked(numbers))
        ),
        (queue(), entity(), any::<u64>(), at(), btree_map(any::<u64>(), arrived, 0..3)).prop_map(
            |(q, e, serial, at, shipments)| {
                (Key::Arrival(q, e), Row::Arrival(ArrivalRow { serial, at, shipments }))
            }
        ),
    ]
}

pub fn session_tables() -> impl Strategy<Value = (Key, Row)> {
    let numbers = || (any::<u64>(), number()).prop_map(|(count, low)| Numbers { count, low });
    let claim = || (at(), any::<u64>()).prop_map(|(at, turn)| Claim { at, turn });
    let lock = (any::<u64>(), at(), receiver(), any::<bool>()).prop_map(
        |(nonce, until, receiver, closed)| SessionLock { nonce, until, receiver, closed },
    );
    let state = (any::<u32>(), at())
        .prop_map(|(size_bytes, changed_at)| StateMark { size_bytes, changed_at });
    let counts = any::<(u64, u64)>();
    let row = (counts, numbers(), numbers(), of(lock), at(), of(claim()), of(state)).prop_map(
        |((active, deferred), ready, held, lock, released_at, claim, state)| SessionRow {
            active,
            deferred,
            ready,
            held,
            lock,
            released_at,
            claim,
            state,
        },
    );
    let list = prop::sample::select(&SessionList::ALL[..]);
    prop_oneof![
        (entity(), session(), row)
            .prop_map(|(e, id, row)| (Key::Session(e, id), Row::Session(Box::new(row)))),
        (entity(), session(), list, number()).prop_map(|(e, id, list, n)| (
            Key::SessionMessage(e, id, list, n),
            Row::SessionMessage
        )),
        (entity(), session(), number(), any::<u64>(), receiver()).prop_map(
            |(e, id, n, nonce, receiver)| {
                (Key::SessionHeld(e, id, n), Row::SessionHeld(HeldRow { nonce, receiver }))
            }
        ),
        (entity(), claim(), session())
            .prop_map(|(e, claim, id)| (Key::SessionFree(e, claim), Row::SessionFree(id))),
        (entity(), session()).prop_map(|(e, id)| (Key::SessionLocked(e, id), Row::SessionLocked)),
        (entity(), session(), content())
            .prop_map(|(e, id, state)| (Key::SessionState(e, id), Row::SessionState(state))),
    ]
}
