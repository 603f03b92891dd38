//! The facts of every command as one table, to be read beside the rules.

use std::collections::BTreeSet;

use super::*;
use crate::Repeat::{DoneAgain, Harmless, Numbered};
use crate::Requester::{DevelopmentNode, Leader, Node};
use crate::{
    AcceptSession, Admit, Arrive, Depart, Destination, DocumentText, FireSessions, ForgetArrivals,
    GroupId, Leave, NewNamespace, NodeRow, Operation, Profile, ReceiveSession,
    ReceiveSessionDeferred, ReleaseSession, RenewSession, ResumeSession, SendVia, SessionId,
    SessionToken, SetSessionState, Ship, Shipped, SubQueue, Unpark,
};

const ENTITY: EntityId = EntityId(7);
const OTHER: EntityId = EntityId(8);
const QUEUE: QueueId = QueueId { entity: ENTITY, sub: SubQueue::Main };
const RECEIVER: ReceiverId = ReceiverId { node: 1, link: 1, epoch: 1 };
const ORIGIN: Option<Origin> =
    Some(Origin { producer: 3, serial: 4, ordered: false, retry: false });
const AT: Timestamp = Timestamp(1_000);

/// Defines the name of each variant, and the list of them: a variant more compiles only with a name
/// here, and then the tables below want a row for it.
macro_rules! variants {
    ($kind:ident, $name:ident, $names:ident: $($variant:ident)*) => {
        const $names: &[&str] = &[$(stringify!($variant)),*];

        fn $name(command: &$kind) -> &'static str {
            match command {
                $($kind::$variant { .. } => stringify!($variant),)*
            }
        }
    };
}

variants!(Command, command_name, COMMANDS:
    CreateQueue UpdateQueue DeleteEntity Send Acquire Settle Renew CancelScheduled ReceiveDeferred
    DeleteBatch Fire FireLocks Touch Seal Beat Sweep AdvanceClock RaiseClock Catalog Session Topic
    Refuse Forward Commit Select LimitMatching Cut Restore Relocate ReachLevel);
variants!(CatalogCommand, catalog_name, CATALOG:
    Found Create CreateTopic CreateSubscription Created Withdraw Delete Deleted Seal Spare SetNode
    AddNode Drain Remove MoveReplica CreateJoinToken RevokeJoinToken Join RaiseFeatureLevel
    SetMaintenance AddGroups OpenGroups BeginRestore RestoreNames EndRestore
    SetGroup PutFaultRule RemoveFaultRules CreateNamespace UpdateNamespace DeleteNamespace
    NamespaceDeleted RestoreNamespaces CreateNamespaceOf ChangeProfile SettleProfile
    SetNamespaceIdle UseNamespace SealNamespace DeleteIdleNamespace
    PutDocument RemoveDocument);
variants!(SessionCommand, session_name, SESSION:
    Accept Receive Resume Renew Release SetState ReceiveDeferred DeleteBatch Fire);
variants!(TopicCommand, topic_name, TOPIC:
    Create Update CreateSubscription UpdateSubscription PutRule RemoveRule);
variants!(ForwardCommand, forward_name, FORWARD:
    Ship Arrive ArriveBehind Shipped Unpark ForgetArrivals);
variants!(RelocationCommand, relocation_name, RELOCATION: Depart Admit Leave);

/// What is true of a command beside who asks for it, repeats it and is meant by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Also {
    AddsData,
    SendsMessages,
    Delivers,
}
use Also::{AddsData, Delivers, SendsMessages};

type TableRow = (Command, Requester, Repeat, Option<EntityId>, &'static [Also]);

fn table() -> Vec<TableRow> {
    const NUMBERED: Repeat = Numbered(ORIGIN);
    const ABOUT: Option<EntityId> = Some(ENTITY);
    let mut table = vec![
        (create_queue(), Node, Harmless, ABOUT, &[][..]),
        (update_queue(), Node, NUMBERED, ABOUT, &[]),
        (Command::DeleteEntity { entity: ENTITY }, Node, Harmless, ABOUT, &[]),
        (Command::Send(send(ORIGIN, 1)), Node, NUMBERED, ABOUT, &[AddsData, SendsMessages]),
        (acquire(), Leader, DoneAgain, ABOUT, &[Delivers]),
        (Command::Settle(settle()), Node, NUMBERED, ABOUT, &[]),
        (Command::Renew(renew()), Node, NUMBERED, ABOUT, &[]),
        (Command::CancelScheduled(cancel()), Node, NUMBERED, ABOUT, &[]),
        (receive_deferred(), Node, NUMBERED, ABOUT, &[Delivers]),
        (select(), Node, NUMBERED, ABOUT, &[Delivers]),
        (delete_batch(), Node, NUMBERED, ABOUT, &[]),
        (fire(), Leader, Harmless, ABOUT, &[]),
        (Command::FireLocks(FireLocks { locks: vec![] }), Leader, Harmless, None, &[]),
        (Command::Touch { entity: ENTITY }, Node, Harmless, ABOUT, &[]),
        (Command::Seal(Seal { entity: ENTITY, idle_since: AT }), Node, Harmless, ABOUT, &[]),
        (Command::Beat, Leader, Harmless, None, &[]),
        (Command::Sweep, Leader, Harmless, None, &[]),
        (Command::LimitMatching { units_max: 1 }, Leader, Harmless, None, &[]),
        (Command::ReachLevel { level: 1 }, Leader, Harmless, None, &[]),
        (Command::Cut { number: 1 }, Node, Harmless, None, &[]),
        (restore(), Node, Harmless, None, &[AddsData]),
        (Command::AdvanceClock { by: Span(1) }, DevelopmentNode, DoneAgain, None, &[]),
        (Command::RaiseClock { to: Span(1) }, Node, Harmless, None, &[]),
        (refuse(), Leader, NUMBERED, None, &[]),
        (commit(vec![Operation::Settle(settle())]), Node, NUMBERED, ABOUT, &[SendsMessages]),
    ];
    let catalog = catalog_rows().into_iter();
    let catalog = catalog
        .map(|(command, repeat, also)| (Command::Catalog(command), Node, repeat, None, also));
    table.extend(catalog);
    let session = |command, requester, repeat, also| {
        (Command::Session(command), requester, repeat, ABOUT, also)
    };
    table.extend([
        session(accept(), Node, NUMBERED, &[][..]),
        session(receive(), Leader, DoneAgain, &[Delivers]),
        session(resume(), Leader, Harmless, &[]),
        session(renew_session(), Node, NUMBERED, &[]),
        session(release(), Node, NUMBERED, &[]),
        session(SessionCommand::SetState(set_state(true)), Node, NUMBERED, &[AddsData]),
        session(SessionCommand::SetState(set_state(false)), Node, NUMBERED, &[]),
        session(receive_session_deferred(), Node, NUMBERED, &[Delivers]),
        session(delete_session_batch(), Node, NUMBERED, &[]),
    ]);
    let fire = Command::Session(SessionCommand::Fire(FireSessions { locks: vec![] }));
    table.push((fire, Leader, Harmless, None, &[]));
    let topic = |command, repeat, also| (Command::Topic(command), Node, repeat, ABOUT, also);
    table.extend([
        topic(create_topic(), Harmless, &[][..]),
        topic(update_topic(), NUMBERED, &[]),
        topic(create_subscription(), Harmless, &[]),
        topic(update_subscription(), NUMBERED, &[]),
        topic(put_rule(), NUMBERED, &[AddsData]),
        topic(remove_rule(), NUMBERED, &[]),
    ]);
    let forward = |command, also| (Command::Forward(command), Node, Harmless, ABOUT, also);
    table.extend([
        forward(ship(), &[][..]),
        forward(arrive(0), &[AddsData]),
        forward(arrive(1), &[AddsData]),
        forward(ForwardCommand::Shipped(shipped()), &[]),
        forward(ForwardCommand::Unpark(Unpark { queue: QUEUE, count_max: 1 }), &[]),
        forward(forget_arrivals(), &[]),
    ]);
    let relocations = relocations().into_iter();
    table.extend(
        relocations.map(|command| (Command::Relocate(command), Node, Harmless, ABOUT, &[][..])),
    );
    table
}

#[test]
fn every_command_is_in_the_table_and_as_it_says() {
    let mut seen = BTreeSet::new();
    for (command, requester, repeat, entity, also) in table() {
        let facts = command.facts();
        let flags = [
            (AddsData, facts.adds_data),
            (SendsMessages, facts.sends_to().is_some()),
            (Delivers, facts.delivers_from.is_some()),
        ];
        let holds: Vec<Also> =
            flags.into_iter().filter(|(_, holds)| *holds).map(|(also, _)| also).collect();
        assert_eq!(
            (facts.requester, facts.repeat, facts.entity, &holds[..]),
            (requester, repeat, entity, also),
            "{command:?}"
        );
        assert!(facts.delivers_from.is_none_or(|queue| queue == QUEUE), "{command:?}");
        let inner = match &command {
            Command::Catalog(command) => catalog_name(command),
            Command::Session(command) => session_name(command),
            Command::Topic(command) => topic_name(command),
            Command::Forward(command) => forward_name(command),
            Command::Relocate(command) => relocation_name(command),
            _ => "",
        };
        seen.insert((command_name(&command), inner));
    }
    let nested = [("Catalog", CATALOG), ("Session", SESSION), ("Topic", TOPIC)];
    let nested = nested.into_iter().chain([("Forward", FORWARD), ("Relocate", RELOCATION)]);
    let mut all: BTreeSet<(&str, &str)> =
        nested.clone().flat_map(|(outer, inner)| inner.iter().map(move |i| (outer, *i))).collect();
    let is_nested = |name: &str| nested.clone().any(|(outer, _)| outer == name);
    all.extend(COMMANDS.iter().filter(|name| !is_nested(name)).map(|name| (*name, "")));
    assert_eq!(seen, all);
}

/// What is written on a command is what is read from it.
#[test]
fn an_address_is_where_the_facts_are_read() {
    for (command, _, repeat, entity, _) in table() {
        let mut addressed = command.clone();
        let origin = addressed.origin_mut();
        assert_eq!(origin.is_some(), matches!(repeat, Numbered(_)), "{command:?}");
        if let Some(origin) = origin {
            *origin = None;
            assert_eq!(addressed.facts().repeat, Numbered(None), "{command:?}");
        }
        let mut addressed = command.clone();
        addressed.set_entity(OTHER);
        let follows = match &command {
            // Found by no name: an id is all that is known of it.
            Command::Seal(_) | Command::Forward(_) | Command::Relocate(_) => entity,
            _ => entity.map(|_| OTHER),
        };
        assert_eq!(addressed.facts().entity, follows, "{command:?}");
    }
}

/// SEND-8: only what will be recognised, or does nothing the second time, is sent again.
#[test]
fn send_8_a_command_nobody_would_recognise_is_not_repeated() {
    for (command, _, repeat, ..) in table() {
        let mut again = command.clone();
        assert_eq!(again.mark_repeat(), repeat != DoneAgain, "{command:?}");
        let retries = again.facts().origin().map(|origin| origin.retry);
        assert_eq!(retries, command.facts().origin().map(|_| true));
        if let Some(origin) = again.origin_mut() {
            *origin = None;
            assert!(!again.mark_repeat(), "{command:?}");
        }
    }
}

#[test]
fn a_greeting_is_a_first_request_that_sends_nothing() {
    let origin = |serial| Some(Origin { producer: 1, serial, ordered: true, retry: false });
    let greets = |origin, messages| Command::Send(send(origin, messages)).facts().greets();
    assert!(greets(origin(1), 0));
    assert!(!greets(origin(1), 1));
    assert!(!greets(origin(2), 0));
    assert!(!greets(None, 0));
    let first = Command::Settle(Settle { origin: origin(1), settlements: vec![], ..settle() });
    assert!(!first.facts().greets());
}

/// QUOTA-37: of a transaction, each part counts.
#[test]
fn quota_37_a_transaction_adds_data_where_a_part_of_it_does() {
    let via = SendVia { via: ENTITY, destination: destination(), messages: vec![message()] };
    for (operation, adds_data) in [
        (Operation::Send(send(None, 1)), true),
        (Operation::SendVia(via), true),
        (Operation::SetState(set_state(true)), true),
        (Operation::SetState(set_state(false)), false),
        (Operation::CancelScheduled(cancel()), false),
        (Operation::Settle(settle()), false),
        (Operation::Renew(renew()), false),
    ] {
        let command = commit(vec![Operation::Renew(renew()), operation]);
        assert_eq!(command.facts().adds_data, adds_data, "{command:?}");
    }
}

/// SCHED-1: what is scheduled for later is not there to be received.
#[test]
fn what_is_sent_is_available_unless_it_is_scheduled_for_later() {
    let at = |at| NewMessage { scheduled_at: at, ..message() };
    let messages = vec![at(None), at(Some(AT)), at(Some(AT.plus(Span(1))))];
    let sent = Send { messages, ..send(None, 0) };
    let via = SendVia { via: ENTITY, destination: destination(), messages: vec![message()] };
    let parts = vec![
        Operation::Send(sent.clone()),
        Operation::SendVia(via),
        Operation::Settle(settle()),
        Operation::Send(send(None, 1)),
    ];
    assert_eq!(Command::Send(sent).facts().sends.available_at(AT), 2);
    assert_eq!(commit(parts).facts().sends.available_at(AT), 3);
    assert_eq!(acquire().facts().sends.available_at(AT), 0);
}

#[test]
fn settlements_are_found_alone_and_in_transactions() {
    let found = |mut command: Command| command.settles_mut().count();
    assert_eq!(found(Command::Settle(settle())), 1);
    let parts = vec![Operation::Settle(settle()), Operation::Renew(renew())];
    assert_eq!(found(commit(parts)), 1);
    assert_eq!(found(Command::Send(send(None, 1))), 0);
}

/// Only what is a text of any size is encoded to be weighed.
#[test]
fn weights_are_computed_and_only_descriptions_are_encoded() {
    let unasked = |_: &Command| panic!("encoded to be weighed");
    let weight = |bytes, messages| Weight { bytes, messages };
    let content = message().content.len();
    assert_eq!(Command::Send(send(None, 3)).weight(unasked), weight(64 + 3 * (content + 64), 3));
    assert_eq!(Command::Settle(settle()).weight(unasked), weight(64 + 64 + 9, 1));
    let parts = vec![Operation::Settle(settle()), Operation::Send(send(None, 1))];
    let parts_bytes = (64 + 64 + 9) + (64 + content + 64);
    assert_eq!(commit(parts).weight(unasked), weight(64 + parts_bytes, 2));
    assert_eq!(acquire().weight(unasked), weight(64, 5));
    assert_eq!(Command::Beat.weight(unasked), weight(64, 1));
    for (command, ..) in table() {
        let is_description = matches!(
            command,
            Command::CreateQueue(_)
                | Command::UpdateQueue(_)
                | Command::Topic(_)
                | Command::Catalog(_)
                | Command::Restore(_)
                | Command::Relocate(RelocationCommand::Admit(_))
        );
        match is_description {
            true => assert_eq!(command.weight(|_| 1000), weight(1064, 1), "{command:?}"),
            false => drop(command.weight(unasked)),
        }
    }
}

fn message() -> NewMessage {
    NewMessage {
        content: vec![0; 100].into(),
        size_bytes: 100,
        header_bytes: 0,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    }
}

fn token() -> LockToken {
    LockToken { sequence: SequenceNumber(1), nonce: 1 }
}

fn session_token() -> SessionToken {
    SessionToken { session: SessionId::first(), nonce: 1 }
}

fn destination() -> Destination {
    Destination { entity: OTHER, group: GroupId(2) }
}

fn create_queue() -> Command {
    Command::CreateQueue(CreateQueue {
        entity: ENTITY,
        name: "q".to_owned(),
        properties: Box::default(),
    })
}

fn update_queue() -> Command {
    let properties = Box::default();
    Command::UpdateQueue(UpdateQueue { origin: ORIGIN, entity: ENTITY, properties })
}

fn send(origin: Option<Origin>, messages: usize) -> Send {
    Send { origin, entity: ENTITY, messages: vec![message(); messages] }
}

fn acquire() -> Command {
    Command::Acquire(Acquire { queue: QUEUE, receiver: RECEIVER, count_max: 5, bytes_max: 1 })
}

fn settle() -> Settle {
    let disposition = Disposition::DeadLetter {
        reason: Some("why".to_owned()),
        description: Some("at all".to_owned()),
        properties: Properties::default(),
    };
    let settlements = vec![Settlement { token: token(), disposition }];
    Settle { origin: ORIGIN, queue: QUEUE, settlements, atomic: false }
}

fn renew() -> Renew {
    Renew { origin: ORIGIN, queue: QUEUE, tokens: vec![token()] }
}

fn cancel() -> CancelScheduled {
    CancelScheduled { origin: ORIGIN, entity: ENTITY, numbers: vec![SequenceNumber(1)] }
}

fn receive_deferred() -> Command {
    let (origin, queue, receiver) = (ORIGIN, QUEUE, RECEIVER);
    Command::ReceiveDeferred(ReceiveDeferred { origin, queue, receiver, numbers: vec![] })
}

fn select() -> Command {
    let (origin, queue, receiver) = (ORIGIN, QUEUE, RECEIVER);
    Command::Select(Select { origin, queue, receiver, numbers: vec![] })
}

fn delete_batch() -> Command {
    let (origin, queue) = (ORIGIN, QUEUE);
    Command::DeleteBatch(DeleteBatch { origin, queue, count_max: 1, before: None })
}

fn fire() -> Command {
    Command::Fire(Fire { entity: ENTITY, kind: DeadlineKind::Scheduled, count_max: 1 })
}

fn refuse() -> Command {
    Command::Refuse(Refuse { origin: ORIGIN, refusal: Refusal::PerhapsDone })
}

fn commit(operations: Vec<Operation>) -> Command {
    Command::Commit(Commit { origin: ORIGIN, entity: ENTITY, operations })
}

fn catalog_rows() -> Vec<(CatalogCommand, Repeat, &'static [Also])> {
    let name = || "q".to_owned();
    let row = || NodeRow {
        peer_address: String::new(),
        grpc_address: String::new(),
        http_address: String::new(),
    };
    let (node, entity, idle_since) = (1, ENTITY, AT);
    let set_group =
        CatalogCommand::SetGroup { name: name(), entity, from: GroupId(1), group: GroupId(2) };
    let create = CatalogCommand::Create { request: 1, name: name(), properties: Box::default() };
    let create_topic =
        CatalogCommand::CreateTopic { request: 1, name: name(), properties: Box::default() };
    let create_subscription = CatalogCommand::CreateSubscription {
        request: 1,
        topic: name(),
        name: name(),
        properties: Box::default(),
        rule: Box::default(),
    };
    let found = CatalogCommand::Found {
        cluster_id: 1,
        data_groups: 1,
        replication_factor: 1,
        nodes: vec![],
    };
    let move_replica = CatalogCommand::MoveReplica { group: GroupId(1), from: 1, to: 2, moves: 0 };
    let (request, authorization_rules) = (1, Vec::new());
    let create_namespace = CatalogCommand::CreateNamespace {
        request,
        name: name(),
        authorization_rules: authorization_rules.clone(),
    };
    let update_namespace =
        CatalogCommand::UpdateNamespace { request, name: name(), authorization_rules };
    let profile = Profile::Basic;
    let create_basic = CatalogCommand::CreateNamespaceOf {
        request,
        new: NewNamespace {
            name: name(),
            profile,
            auto_delete_on_idle: Span::MAX,
            authorization_rules: Vec::new(),
        },
    };
    let change_profile = CatalogCommand::ChangeProfile { request, name: name(), profile };
    let settle_profile =
        CatalogCommand::SettleProfile { request, name: name(), profile, fits: true };
    let put_fault = CatalogCommand::PutFaultRule { name: name(), text: String::new(), lasts: None };
    let secret_hash = [1; 32];
    let create_token =
        CatalogCommand::CreateJoinToken { id: 1, secret_hash, lasts: Span(1), node: None };
    let join =
        CatalogCommand::Join { token: 1, secret_hash, request: 1, node, row: Box::new(row()) };
    vec![
        (found, Harmless, &[]),
        (create, DoneAgain, &[AddsData]),
        (create_topic, DoneAgain, &[AddsData]),
        (create_subscription, DoneAgain, &[AddsData]),
        (CatalogCommand::Created { name: name(), entity }, Harmless, &[]),
        (CatalogCommand::Withdraw { name: name(), entity }, Harmless, &[]),
        (CatalogCommand::Delete { name: name() }, DoneAgain, &[]),
        (CatalogCommand::Deleted { name: name(), entity }, Harmless, &[]),
        (CatalogCommand::Seal { name: name(), entity, idle_since }, Harmless, &[]),
        (CatalogCommand::Spare { name: name(), entity, idle_since }, Harmless, &[]),
        (CatalogCommand::SetNode { node, row: row() }, Harmless, &[]),
        (CatalogCommand::AddNode { node, row: row() }, Harmless, &[]),
        (CatalogCommand::Drain { node, cancel: false }, Harmless, &[]),
        (CatalogCommand::Remove { node, dead: false }, Harmless, &[]),
        (move_replica, Harmless, &[]),
        (create_token, Harmless, &[]),
        (CatalogCommand::RevokeJoinToken { id: 1 }, Harmless, &[]),
        (join, Harmless, &[]),
        (CatalogCommand::RaiseFeatureLevel { level: 3, nodes: vec![1] }, Harmless, &[]),
        (CatalogCommand::SetMaintenance { node: 1, on: true }, Harmless, &[]),
        (CatalogCommand::AddGroups { data_groups: 4, directories: vec![(1, 7)] }, Harmless, &[]),
        (CatalogCommand::OpenGroups { data_groups: 4 }, Harmless, &[]),
        (CatalogCommand::BeginRestore { restore: 1, taken_at: AT }, Harmless, &[]),
        (CatalogCommand::RestoreNames { restore: 1, rows: vec![] }, Harmless, &[AddsData]),
        (CatalogCommand::EndRestore { restore: 1, next_entity: 7 }, Harmless, &[]),
        (set_group, Harmless, &[]),
        (put_fault, Harmless, &[]),
        (CatalogCommand::RemoveFaultRules { name: None }, Harmless, &[]),
        (create_namespace, DoneAgain, &[AddsData]),
        (update_namespace, Harmless, &[]),
        (CatalogCommand::DeleteNamespace { request: 1, name: name(), force: true }, Harmless, &[]),
        (CatalogCommand::NamespaceDeleted { request: 1, name: name() }, Harmless, &[]),
        (CatalogCommand::RestoreNamespaces { restore: 1, rows: vec![] }, Harmless, &[AddsData]),
        (
            CatalogCommand::SetNamespaceIdle { request, name: name(), window: Span(1) },
            Harmless,
            &[],
        ),
        (CatalogCommand::UseNamespace { request, name: name(), until: AT }, Harmless, &[]),
        (CatalogCommand::SealNamespace { request, name: name() }, Harmless, &[]),
        (CatalogCommand::DeleteIdleNamespace { request, name: name() }, Harmless, &[]),
        (create_basic, DoneAgain, &[AddsData]),
        (change_profile, Harmless, &[]),
        (settle_profile, Harmless, &[]),
        (
            CatalogCommand::PutDocument { name: name(), text: DocumentText(name()), is_new: true },
            Harmless,
            &[AddsData],
        ),
        (CatalogCommand::RemoveDocument { name: name() }, Harmless, &[]),
    ]
}

fn relocations() -> Vec<RelocationCommand> {
    let rows = vec![(Key::Returned(QUEUE, SequenceNumber(1)), Row::Returned)];
    let admit = Admit { entity: ENTITY, number: 1, at: AT, cut: 0, rows, is_last: false };
    vec![
        RelocationCommand::Depart(Depart { entity: ENTITY, to: GroupId(2) }),
        RelocationCommand::Admit(admit),
        RelocationCommand::Leave(Leave { entity: ENTITY, number: 1 }),
    ]
}

fn restore() -> Command {
    let rows = vec![(Key::Returned(QUEUE, SequenceNumber(1)), Row::Returned)];
    Command::Restore(Restore { restore: 1, rows, is_last: false })
}

fn accept() -> SessionCommand {
    let (origin, queue, receiver) = (ORIGIN, QUEUE, RECEIVER);
    SessionCommand::Accept(AcceptSession { origin, queue, receiver, session: None })
}

fn receive() -> SessionCommand {
    SessionCommand::Receive(ReceiveSession {
        entity: ENTITY,
        token: session_token(),
        receiver: RECEIVER,
        count_max: 1,
        bytes_max: 1,
    })
}

fn resume() -> SessionCommand {
    SessionCommand::Resume(ResumeSession {
        entity: ENTITY,
        token: session_token(),
        receiver: RECEIVER,
        arrived: vec![],
    })
}

fn renew_session() -> SessionCommand {
    let token = session_token();
    SessionCommand::Renew(RenewSession { origin: ORIGIN, entity: ENTITY, token })
}

fn release() -> SessionCommand {
    let token = session_token();
    SessionCommand::Release(ReleaseSession { origin: ORIGIN, entity: ENTITY, token })
}

fn set_state(to_some: bool) -> SetSessionState {
    let state = to_some.then(|| vec![0; 10].into());
    SetSessionState { origin: ORIGIN, entity: ENTITY, token: session_token(), state }
}

fn receive_session_deferred() -> SessionCommand {
    SessionCommand::ReceiveDeferred(ReceiveSessionDeferred {
        origin: ORIGIN,
        entity: ENTITY,
        token: session_token(),
        receiver: RECEIVER,
        numbers: vec![],
    })
}

fn delete_session_batch() -> SessionCommand {
    SessionCommand::DeleteBatch(crate::DeleteSessionBatch {
        origin: ORIGIN,
        entity: ENTITY,
        token: session_token(),
        count_max: 1,
        before: None,
    })
}

fn create_topic() -> TopicCommand {
    let (name, properties) = ("t".to_owned(), Box::default());
    TopicCommand::Create(CreateTopic { entity: ENTITY, name, properties })
}

fn update_topic() -> TopicCommand {
    let properties = Box::default();
    TopicCommand::Update(UpdateTopic { origin: ORIGIN, entity: ENTITY, properties })
}

fn create_subscription() -> TopicCommand {
    TopicCommand::CreateSubscription(CreateSubscription {
        entity: ENTITY,
        topic: OTHER,
        name: "t/subscriptions/s".to_owned(),
        properties: Box::default(),
        rule: Box::default(),
    })
}

fn update_subscription() -> TopicCommand {
    let properties = Box::default();
    let update = UpdateSubscription { origin: ORIGIN, entity: ENTITY, properties };
    TopicCommand::UpdateSubscription(update)
}

fn put_rule() -> TopicCommand {
    let rule = Box::default();
    TopicCommand::PutRule(PutRule { origin: ORIGIN, entity: ENTITY, rule, replace: false })
}

fn remove_rule() -> TopicCommand {
    TopicCommand::RemoveRule(RemoveRule { origin: ORIGIN, entity: ENTITY, name: "r".to_owned() })
}

fn ship() -> ForwardCommand {
    ForwardCommand::Ship(Ship {
        queue: QUEUE,
        to: "d".to_owned(),
        destination: None,
        count_max: 1,
        bytes_max: 1,
        again: false,
    })
}

fn arrive(cut: u64) -> ForwardCommand {
    let arrive = Arrive {
        source: QueueId::main(OTHER),
        serial: 1,
        settled_to: 0,
        follows: 0,
        destination: ENTITY,
        count: 0,
        skipped: 0,
        messages: vec![],
    };
    arrive.behind(cut)
}

fn shipped() -> Shipped {
    Shipped { queue: QUEUE, serial: 1, refused: vec![] }
}

fn forget_arrivals() -> ForwardCommand {
    let source = QueueId::main(OTHER);
    ForwardCommand::ForgetArrivals(ForgetArrivals { source, destination: ENTITY })
}
