//! NS, as the catalog decides it.

use domain::{
    AccessRights, AuthorizationRule, CatalogCommand, CatalogOutcome, Command, CreateQueue,
    CreateTopic, EntityId, Key, NAMESPACES_MAX, Namespace, NamespaceRow, NamespaceState, NewRule,
    Outcome, Profile, QUALIFIED_END, QueueProperties, Refusal, SubscriptionProperties,
    TopicCommand, UpdateQueue,
};

use crate::catalog::{ask, catalog, created, deleted, entry};
use crate::support::Group;
use crate::table::queue;

/// What created it.
const REQUEST: u64 = 1 << 41;

fn rules(name: &str) -> Vec<AuthorizationRule> {
    vec![AuthorizationRule {
        name: name.to_owned(),
        rights: AccessRights::ALL,
        primary_key: "p".to_owned(),
        secondary_key: "s".to_owned(),
        ..AuthorizationRule::default()
    }]
}

fn create_namespace(group: &mut Group, request: u64, name: &str) -> Outcome {
    let (name, authorization_rules) = (name.to_owned(), rules("root"));
    ask(group, CatalogCommand::CreateNamespace { request, name, authorization_rules })
}

fn delete_namespace(group: &mut Group, request: u64, force: bool) -> Outcome {
    let name = "orders".to_owned();
    ask(group, CatalogCommand::DeleteNamespace { request, name, force })
}

fn row(outcome: Outcome) -> NamespaceRow {
    match outcome {
        Outcome::Catalog(CatalogOutcome::Namespace(row)) => row,
        other => panic!("no namespace: {other:?}"),
    }
}

fn why(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Refused(Refusal::Argument { why, .. }) => why.clone(),
        other => panic!("not refused: {other:?}"),
    }
}

/// A catalog with a namespace.
fn with_orders() -> Group {
    let mut group = catalog(2);
    row(create_namespace(&mut group, REQUEST, "orders"));
    group
}

fn create_queue(group: &mut Group, name: &str, properties: QueueProperties) -> Outcome {
    let (request, name, properties) = (7, name.to_owned(), Box::new(properties));
    ask(group, CatalogCommand::Create { request, name, properties })
}

#[test]
fn ns_1_the_default_namespace_is_there_and_others_once_they_are_created() {
    let mut group = catalog(1);
    created(&mut group, "q");
    assert!(why(&create_queue(&mut group, "+orders:q", queue())).contains("create it first"));
    let first = row(create_namespace(&mut group, REQUEST, "orders"));
    assert_eq!(row(create_namespace(&mut group, REQUEST, "orders")), first, "a repeat");
    assert!(why(&create_namespace(&mut group, REQUEST + 1, "orders")).contains("there is one"));
    created(&mut group, "+orders:q");
    // The other rows are as they were.
    assert!(matches!(create_queue(&mut group, "q", queue()), Outcome::Refused(_)));
}

#[test]
fn quota_12_a_cluster_has_so_many_namespaces() {
    let mut group = catalog(1);
    for number in 0..NAMESPACES_MAX as u64 {
        row(create_namespace(&mut group, REQUEST + number, &format!("n{number}")));
    }
    let one_more = create_namespace(&mut group, 1, "one-more");
    assert!(
        matches!(one_more, Outcome::Refused(Refusal::QuotaExceeded { max: 1_000, .. })),
        "{one_more:?}"
    );
}

/// QUOTA-15: and it is as long as its clients write it.
#[test]
fn ns_3_a_name_is_checked_as_its_clients_say_it() {
    let mut group = with_orders();
    let longest = "x".repeat(260);
    for (name, is_taken) in [
        (longest.clone(), true),
        (format!("{longest}y"), false),
        ("a//b".to_owned(), false),
        ("a/subscriptions/b".to_owned(), false),
        ("+orders:q".to_owned(), false),
    ] {
        let outcome = create_queue(&mut group, &format!("+orders:{name}"), queue());
        assert_eq!(matches!(outcome, Outcome::Catalog(_)), is_taken, "{name}: {outcome:?}");
    }
    // In groups too.
    let mut data = Group::empty();
    for (entity, name, is_taken) in
        [(1, "+orders:q", true), (3, "+orders:a b", false), (4, "+:q:r", false)]
    {
        let (entity, name) = (EntityId(entity), name.to_owned());
        let properties = Box::new(queue());
        let done = data.apply(Command::CreateQueue(CreateQueue { entity, name, properties }));
        assert_eq!(done == Outcome::Done, is_taken, "{done:?}");
    }
    let topic = CreateTopic {
        entity: EntityId(2),
        name: "+orders:t".to_owned(),
        properties: Box::default(),
    };
    assert_eq!(data.apply(Command::Topic(TopicCommand::Create(topic))), Outcome::Done);
}

/// What a page of the default namespace begins behind.
#[test]
fn ns_3_names_of_the_default_namespace_are_in_one_place() {
    for first in ('!'..='~').filter(|c| domain::validate::queue_name(&c.to_string()).is_ok()) {
        assert!(first.to_string().as_str() > QUALIFIED_END, "{first}");
    }
    assert!("+zzz:~" < QUALIFIED_END);
}

#[test]
fn ns_4_what_is_forwarded_stays_in_its_namespace() {
    let mut group = with_orders();
    for name in ["here", "+orders:there"] {
        created(&mut group, name);
    }
    let to = |name: &str| QueueProperties { forward_to: Some(name.to_owned()), ..queue() };
    for (name, destination, is_taken) in [
        ("a", "here", true),
        ("b", "+orders:there", false),
        ("+orders:a", "+orders:there", true),
        ("+orders:b", "here", false),
        ("+orders:c", "there", false),
    ] {
        let outcome = create_queue(&mut group, name, to(destination));
        assert_eq!(matches!(outcome, Outcome::Catalog(_)), is_taken, "{name} to {destination}");
    }
    // And by an update.
    let mut data = Group::empty();
    let (entity, origin) = (EntityId(1), None);
    let (name, properties) = ("+orders:a".to_owned(), Box::new(queue()));
    data.apply(Command::CreateQueue(CreateQueue { entity, name, properties }));
    for (destination, is_taken) in [("here", false), ("+other:q", false), ("+orders:q", true)] {
        let properties = Box::new(to(destination));
        let update = Command::UpdateQueue(UpdateQueue { origin, entity, properties });
        assert_eq!(data.apply(update) == Outcome::Done, is_taken, "{destination}");
    }
}

#[test]
fn ns_6_a_namespace_goes_once_nothing_is_in_it() {
    let mut group = with_orders();
    created(&mut group, "q");
    created(&mut group, "+orders:q");
    let topic = CatalogCommand::CreateTopic {
        request: 8,
        name: "+orders:News".to_owned(),
        properties: Box::default(),
    };
    let (created_row, _) = entry(ask(&mut group, topic));
    let ready = CatalogCommand::Created { name: "+orders:news".into(), entity: created_row.entity };
    ask(&mut group, ready);
    let subscription = |group: &mut Group| {
        let create = CatalogCommand::CreateSubscription {
            request: 9,
            topic: "+orders:news".to_owned(),
            name: "s".to_owned(),
            properties: Box::new(SubscriptionProperties::default()),
            rule: Box::new(NewRule::default()),
        };
        ask(group, create)
    };
    let refused = why(&delete_namespace(&mut group, REQUEST, false));
    assert!(refused.contains("'news', 'q'") && refused.contains("--force"), "{refused}");
    let deleting = row(delete_namespace(&mut group, REQUEST, true));
    assert_eq!(deleting.state, NamespaceState::Deleting);
    assert_eq!(row(delete_namespace(&mut group, REQUEST, false)), deleting, "a repeat");
    // Nothing more comes to be there, and nobody has the name meanwhile.
    assert!(why(&create_queue(&mut group, "+orders:r", queue())).contains("is being deleted"));
    assert!(why(&subscription(&mut group)).contains("is being deleted"));
    assert!(why(&create_namespace(&mut group, 5, "orders")).contains("is being deleted"));
    let gone = || CatalogCommand::NamespaceDeleted { request: REQUEST, name: "orders".to_owned() };
    assert!(why(&ask(&mut group, gone())).contains("still has 'news'"));
    deleted(&mut group, "+orders:q");
    deleted(&mut group, "+orders:news");
    assert_eq!(ask(&mut group, gone()), Outcome::Done);
    assert!(!group.rows.0.contains_key(&Key::Namespace("orders".to_owned())));
    // One of that name shares nothing with it: what was asked of the former does nothing.
    let again = row(create_namespace(&mut group, 5, "orders"));
    assert!(why(&delete_namespace(&mut group, REQUEST, true)).contains("any more"));
    assert_eq!(ask(&mut group, gone()), Outcome::Done);
    assert_eq!(row(create_namespace(&mut group, 5, "orders")), again);
    created(&mut group, "+orders:q");
}

#[test]
fn ns_7_a_namespace_has_rules_like_those_of_entities() {
    let mut group = with_orders();
    let update = |group: &mut Group, request: u64, authorization_rules| {
        let name = "orders".to_owned();
        ask(group, CatalogCommand::UpdateNamespace { request, name, authorization_rules })
    };
    let changed = row(update(&mut group, REQUEST, rules("shop")));
    assert_eq!(changed.authorization_rules[0].name, "shop");
    assert_eq!(row(update(&mut group, REQUEST, rules("shop"))), changed, "a repeat");
    assert!(why(&update(&mut group, 1, rules("shop"))).contains("any more"));
    // QUOTA-23, ENT-11.
    let many: Vec<_> = (0..13).flat_map(|number| rules(&format!("r{number}"))).collect();
    let refused = update(&mut group, REQUEST, many);
    assert!(matches!(refused, Outcome::Refused(Refusal::QuotaExceeded { .. })), "{refused:?}");
    let twice = [rules("a"), rules("a")].concat();
    assert!(matches!(update(&mut group, REQUEST, twice), Outcome::Refused(_)));
}

/// What a backup has comes with its namespaces.
#[test]
fn ns_1_a_restored_cluster_has_the_namespaces_of_its_backup() {
    let mut group = catalog(1);
    let begin = CatalogCommand::BeginRestore { restore: 3, taken_at: group.now };
    assert_eq!(ask(&mut group, begin), Outcome::Done);
    let namespace = NamespaceRow {
        name: "orders".to_owned(),
        request: REQUEST,
        created_at: group.now,
        modified_at: group.now,
        authorization_rules: rules("root"),
        state: NamespaceState::Ready,
        profile: Profile::Standard,
        next_profile: None,
    };
    let rows = vec![namespace.clone()];
    let restored = |restore| CatalogCommand::RestoreNamespaces { restore, rows: rows.clone() };
    assert!(why(&ask(&mut group, restored(4))).contains("not under way"));
    assert_eq!(ask(&mut group, restored(3)), Outcome::Done);
    let end = CatalogCommand::EndRestore { restore: 3, next_entity: 9 };
    assert_eq!(ask(&mut group, end), Outcome::Done);
    assert_eq!(row(create_namespace(&mut group, REQUEST, "orders")), namespace);
    created(&mut group, "+orders:q");
    assert_eq!(Namespace::named("orders").map(|it| it.prefix()), Ok("+orders:".to_owned()));
}
