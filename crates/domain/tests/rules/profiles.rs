//! QUOTA-0 and what hangs on it: what the catalog takes in a namespace of each profile.

use domain::validate::{InProfile, batch_within};
use domain::{
    CatalogCommand, CatalogOutcome, Namespace, NamespaceRow, NewMessage, NewNamespace, Outcome,
    Patch, Profile, QueueProperties, Refusal, Span, SubscriptionProperties, TopicProperties,
};

use crate::catalog::{ask, catalog, create, created, deleted};
use crate::support::Group;
use crate::table::{m, queue};

use Profile::{Basic, Premium, SelfHosted, Standard};

const REQUEST: u64 = 1 << 42;
const DAY: Span = Span::from_secs(24 * 60 * 60);

/// A namespace `n` of a profile.
fn with(profile: Profile) -> Group {
    let mut group = catalog(2);
    let create = CatalogCommand::CreateNamespaceOf {
        request: REQUEST,
        new: NewNamespace {
            name: "n".to_owned(),
            profile,
            auto_delete_on_idle: Span::MAX,
            authorization_rules: Vec::new(),
        },
    };
    assert_eq!(row(ask(&mut group, create)).profile, profile);
    group
}

fn row(outcome: Outcome) -> NamespaceRow {
    match outcome {
        Outcome::Catalog(CatalogOutcome::Namespace(row)) => row,
        other => panic!("no namespace: {other:?}"),
    }
}

/// A queue as a client's words make it in a namespace of the profile.
fn said(profile: Profile, change: impl FnOnce(&mut QueueProperties)) -> QueueProperties {
    let mut properties = Patch::<QueueProperties>::default().created_in(profile.limits());
    change(&mut properties);
    properties
}

fn create_queue(group: &mut Group, name: &str, properties: QueueProperties) -> Outcome {
    let (request, name, properties) = (name.len() as u64, name.to_owned(), Box::new(properties));
    ask(group, CatalogCommand::Create { request, name, properties })
}

/// What a refusal says; nothing of what is taken.
fn why(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Catalog(CatalogOutcome::Entry { .. }) => String::new(),
        Outcome::Refused(refusal) => refusal.to_string(),
        other => panic!("neither taken nor refused: {other:?}"),
    }
}

/// A queue `to` that is there to the end, so that something may be forwarded to it.
fn created_in(group: &mut Group, profile: Profile) {
    let name = "+n:to".to_owned();
    let made = create_queue(group, &name, said(profile, |_| ()));
    let Outcome::Catalog(CatalogOutcome::Entry { row, .. }) = made else { panic!("{made:?}") };
    ask(group, CatalogCommand::Created { name, entity: row.entity });
}

type Change = fn(&mut QueueProperties);

/// Each row: what is said of a queue, and which profiles take it.
fn check(rows: &[(&str, Change, &[Profile])]) {
    for (told, change, takers) in rows {
        for profile in Profile::ALL {
            let mut group = with(profile);
            created(&mut group, "default-one");
            let outcome = create_queue(&mut group, "+n:q", said(profile, change));
            let refused = why(&outcome);
            assert_eq!(
                refused.is_empty(),
                takers.contains(&profile),
                "{told}, {profile}: {refused}"
            );
            let tier = format!("'n' is using '{}' tier", profile.limits().sku);
            assert!(refused.is_empty() || refused.contains(&tier), "{told}: {refused}");
            // The same by an update, and what does not fit is told by its name.
            let namespace = Namespace::named("n").expect("a name");
            let within = InProfile { profile, namespace: &namespace };
            let (old, new) = (said(profile, |_| ()), said(profile, change));
            assert_eq!(within.changed(&old, &new).is_ok(), refused.is_empty(), "{told}, {profile}");
            assert_eq!(within.changed(&new, &new), Ok(()), "{told}, {profile}: unchanged");
        }
    }
}

#[test]
fn quota_0_each_profile_takes_what_it_makes_of_nothing_said() {
    check(&[("nothing", |_| (), &Profile::ALL)]);
}

#[test]
fn quota_1_an_entity_is_told_to_hold_as_much_as_its_tier_lets_it() {
    check(&[
        ("5 GB", |it| it.max_size_megabytes = 5 * 1024, &Profile::ALL),
        ("6 GB", |it| it.max_size_megabytes = 6 * 1024, &[SelfHosted, Premium]),
        ("80 GB", |it| it.max_size_megabytes = 80 * 1024, &[SelfHosted, Premium]),
        (
            "5 GB in 16 partitions",
            |it| (it.max_size_megabytes, it.enable_partitioning) = (80 * 1024, true),
            &[SelfHosted, Basic, Standard],
        ),
    ]);
}

#[test]
fn part_1_single_entities_of_premium_are_not_partitioned() {
    check(&[("partitioned", |it| it.enable_partitioning = true, &[SelfHosted, Basic, Standard])]);
}

#[test]
fn quota_5_messages_are_as_large_as_the_tier_lets_them_be() {
    check(&[
        ("100 KB", |it| it.max_message_size_kilobytes = 100, &[SelfHosted]),
        ("256 KB", |it| it.max_message_size_kilobytes = 256, &[SelfHosted, Basic, Standard]),
        ("1 MB", |it| it.max_message_size_kilobytes = 1024, &[SelfHosted, Premium]),
    ]);
    for (profile, kilobytes) in [(SelfHosted, 256), (Basic, 256), (Standard, 256), (Premium, 1024)]
    {
        assert_eq!(said(profile, |_| ()).max_message_size_kilobytes, kilobytes, "{profile}");
    }
}

#[test]
fn quota_6_a_batch_is_as_large_as_the_tier_lets_it_be() {
    let message = |size_bytes| NewMessage { size_bytes, ..m() };
    for (profile, kilobytes) in [(SelfHosted, 1024), (Basic, 256), (Standard, 256), (Premium, 1024)]
    {
        let max = profile.limits().batch_bytes_max;
        assert_eq!(max, kilobytes * 1024, "{profile}");
        assert!(max <= domain::BATCH_BYTES_MAX, "{profile}");
        let half = message(max as u32 / 2);
        assert_eq!(batch_within(&[half.clone(), half.clone()], max), Ok(()));
        let over = batch_within(&[half.clone(), half, message(1)], max);
        assert!(matches!(over, Err(Refusal::MessageSizeExceeded { .. })), "{over:?}");
    }
}

#[test]
fn ttl_6_basic_keeps_messages_for_14_days_at_the_most_and_by_itself() {
    check(&[
        ("14 days", |it| it.default_ttl = Span(14 * DAY.0), &Profile::ALL),
        ("15 days", |it| it.default_ttl = Span(15 * DAY.0), &[SelfHosted, Standard, Premium]),
        ("for ever", |it| it.default_ttl = Span::MAX, &[SelfHosted, Standard, Premium]),
    ]);
    let mut group = with(Basic);
    let refused = create_queue(&mut group, "+n:q", said(Basic, |it| it.default_ttl = Span::MAX));
    let expected = "'DefaultMessageTimeToLive' must be between 00:00:01 and 14.00:00:00 when the namespace 'n' is \
                    using 'Basic' tier";
    assert!(why(&refused).contains(expected), "{refused:?}");
    assert_eq!(said(Basic, |_| ()).default_ttl, Span(14 * DAY.0));
    assert_eq!(said(Standard, |_| ()).default_ttl, Span::MAX);
}

#[test]
fn quota_35_basic_has_queues_and_little_else() {
    const OTHERS: &[Profile] = &[SelfHosted, Standard, Premium];
    check(&[
        ("sessions", |it| it.requires_session = true, OTHERS),
        ("idle", |it| it.auto_delete_on_idle = Span::from_secs(600), OTHERS),
        ("dead letters on expiry", |it| it.dead_letter_on_expiration = true, &Profile::ALL),
    ]);
    for profile in Profile::ALL {
        let (mut group, is_taken) = (with(profile), profile != Basic);
        created_in(&mut group, profile);
        let forwarding = said(profile, |it| it.forward_to = Some("+n:to".to_owned()));
        let refused = why(&create_queue(&mut group, "+n:from", forwarding));
        assert_eq!(refused.is_empty(), is_taken, "{refused}");
        let properties = Patch::<TopicProperties>::default().created_in(profile.limits());
        let topic = CatalogCommand::CreateTopic {
            request: 99,
            name: "+n:topic".to_owned(),
            properties: Box::new(properties),
        };
        let refused = why(&ask(&mut group, topic));
        assert_eq!(refused.is_empty(), is_taken, "{profile}: {refused}");
        assert!(is_taken || refused.contains("'n' is using 'Basic' tier"), "{refused}");
    }
}

#[test]
fn dup_13_basic_detects_no_duplicates() {
    let others = &[SelfHosted, Standard, Premium];
    check(&[("duplicates", |it| it.requires_duplicate_detection = true, others)]);
}

#[test]
fn quota_3_a_namespace_has_so_many_queues_and_topics() {
    const MAX: u64 = 1_000;
    let mut group = with(Premium);
    let make = |group: &mut Group, number: u64| {
        let properties = Box::new(said(Premium, |_| ()));
        let (request, name) = (number, format!("+n:q{number}"));
        ask(group, CatalogCommand::Create { request, name, properties })
    };
    for number in 0..MAX {
        assert_eq!(why(&make(&mut group, number)), "");
    }
    let expected = |used, max| {
        let what = "the namespace (queues and topics)";
        Refusal::QuotaExceeded { what, used, max }
    };
    assert_eq!(make(&mut group, MAX), Outcome::Refused(expected(MAX, MAX)));
    // Other namespaces have room, and so has this one once something is gone.
    created(&mut group, "elsewhere");
    deleted(&mut group, "+n:q7");
    assert_eq!(why(&make(&mut group, MAX)), "");
    for (profile, max) in [(Basic, Some(10_000)), (Standard, Some(10_000)), (SelfHosted, None)] {
        let within = InProfile { profile, namespace: &Namespace::DEFAULT };
        let room = |used| within.has_room(used);
        assert_eq!(room(max.unwrap_or(100_000) - 1), Ok(()), "{profile}");
        let full = max.map_or(Ok(()), |max| Err(expected(max, max)));
        assert_eq!(room(max.unwrap_or(100_000)), full, "{profile}");
    }
}

fn change(group: &mut Group, profile: Profile) -> Outcome {
    let (request, name) = (REQUEST, "n".to_owned());
    ask(group, CatalogCommand::ChangeProfile { request, name, profile })
}

fn settle(group: &mut Group, profile: Profile, fits: bool) -> NamespaceRow {
    let (request, name) = (REQUEST, "n".to_owned());
    row(ask(group, CatalogCommand::SettleProfile { request, name, profile, fits }))
}

/// Until it is decided, what is created keeps to both profiles.
#[test]
fn quota_40_a_profile_is_changed_once_what_is_there_was_found_to_fit() {
    let sessions = |it: &mut QueueProperties| it.requires_session = true;
    let mut group = with(Standard);
    let asked = row(change(&mut group, Basic));
    assert_eq!((asked.profile, asked.next_profile), (Standard, Some(Basic)));
    assert_eq!(row(change(&mut group, Basic)).next_profile, Some(Basic), "a repeat");
    assert!(why(&create_queue(&mut group, "+n:s", said(Basic, sessions))).contains("'Basic' tier"));
    let kept = settle(&mut group, Basic, false);
    assert_eq!((kept.profile, kept.next_profile), (Standard, None));
    assert_eq!(why(&create_queue(&mut group, "+n:s", said(Basic, sessions))), "");
    // Whoever comes late decides nothing.
    assert_eq!(settle(&mut group, Basic, true).profile, Standard);
    row(change(&mut group, Basic));
    assert_eq!(row(change(&mut group, Premium)).next_profile, Some(Premium));
    assert_eq!(settle(&mut group, Basic, true).next_profile, Some(Premium));
    let changed = settle(&mut group, Premium, true);
    assert_eq!((changed.profile, changed.next_profile), (Premium, None));
    assert_eq!(row(change(&mut group, Premium)).next_profile, None, "it is that already");
    // Another namespace of that name is not meant.
    let (request, name) = (REQUEST + 1, "n".to_owned());
    let other = ask(&mut group, CatalogCommand::ChangeProfile { request, name, profile: Basic });
    assert!(why(&other).contains("any more"), "{other:?}");
}

/// QUOTA-3 counts when the profile is asked for.
#[test]
fn quota_40_more_entities_than_a_profile_takes_refuse_it() {
    let mut group = with(SelfHosted);
    for number in 0..1_001 {
        let (request, name) = (number, format!("+n:q{number}"));
        let create = CatalogCommand::Create { request, name, properties: Box::new(queue()) };
        assert_eq!(why(&ask(&mut group, create)), "");
    }
    let refused = change(&mut group, Premium);
    let is_so = matches!(refused, Outcome::Refused(Refusal::QuotaExceeded { used: 1_001, .. }));
    assert!(is_so, "{refused:?}");
    assert_eq!(row(change(&mut group, Standard)).next_profile, Some(Standard));
}

/// The default namespace has one too, from the first that it is told.
#[test]
fn quota_40_the_default_namespace_has_a_profile_as_well() {
    let mut group = catalog(1);
    let ask_for = |group: &mut Group, profile| {
        let name = "default".to_owned();
        row(ask(group, CatalogCommand::ChangeProfile { request: 0, name, profile }))
    };
    assert_eq!(ask_for(&mut group, Standard).next_profile, Some(Standard));
    let name = "default".to_owned();
    let settle = CatalogCommand::SettleProfile { request: 0, name, profile: Standard, fits: true };
    assert_eq!(row(ask(&mut group, settle)).profile, Standard);
    let large = QueueProperties { max_size_megabytes: 6 * 1024, ..queue() };
    let refused = why(&create_queue(&mut group, "q", large));
    assert!(refused.contains("'default' is using 'Standard' tier"), "{refused}");
    create(&mut group, "q");
    // It is no name of others for that, and counts as none of them (QUOTA-12).
    let create = CatalogCommand::CreateNamespace {
        request: 5,
        name: "default".to_owned(),
        authorization_rules: Vec::new(),
    };
    assert!(matches!(ask(&mut group, create), Outcome::Refused(_)));
}

/// What does not fit is told with its kind, or with its property.
#[test]
fn quota_40_what_does_not_fit_a_profile_is_named() {
    let namespace = Namespace::DEFAULT;
    let within = |profile| InProfile { profile, namespace: &namespace };
    for (profile, properties, expected) in [
        (Basic, queue(), Some("DefaultMessageTimeToLive")),
        (Basic, said(Basic, |_| ()), None),
        (Basic, said(Basic, |it| it.requires_session = true), Some("RequiresSession")),
        (Standard, queue(), None),
        (
            Standard,
            QueueProperties { max_message_size_kilobytes: 512, ..queue() },
            Some("MaxMessageSizeInKilobytes"),
        ),
        // What is less than the tier would let one ask for, does.
        (Premium, queue(), None),
        (
            Premium,
            QueueProperties { enable_partitioning: true, ..queue() },
            Some("EnablePartitioning"),
        ),
        (SelfHosted, QueueProperties { max_size_megabytes: 81_920, ..queue() }, None),
    ] {
        assert_eq!(within(profile).misfit(&properties), expected, "{profile}: {properties:?}");
    }
    assert_eq!(within(Basic).misfit(&TopicProperties::default()), Some("Topic"));
    assert_eq!(within(Basic).misfit(&SubscriptionProperties::default()), Some("Subscription"));
    assert_eq!(within(Standard).misfit(&TopicProperties::default()), None);
}
