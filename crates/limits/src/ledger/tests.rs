//! What is counted, for whom, and who is connected.

use super::*;

fn key(name: &str) -> Principal {
    Principal::Key { name: name.into() }
}

fn ip(last: u8) -> Origin {
    Origin::plain(([10, 0, 0, last], 40_000).into())
}

fn ledger(rows: &[(Limit, u64)]) -> Ledger {
    let mut settings = Settings::default();
    rows.iter().for_each(|(limit, max)| settings.set(*limit, *max));
    Ledger::new(settings)
}

fn reached<T>(found: Result<T, Exceeded>) -> Option<(Limit, u64)> {
    found.err().map(|exceeded| (exceeded.limit, exceeded.max))
}

#[test]
fn quota_13_connections_are_counted_in_all_by_address_and_by_key() {
    let ledger = ledger(&[(Limit::AddressConnections, 2), (Limit::KeyConnections, 1)]);
    ledger.limit_connections(FrontEnd::Http, 3);
    let open = |front_end, last| ledger.open(front_end, ip(last));
    let (first, second) = (open(FrontEnd::Amqp, 1).unwrap(), open(FrontEnd::Http, 1).unwrap());
    for front_end in FrontEnd::ALL {
        assert_eq!(reached(open(front_end, 1)), Some((Limit::AddressConnections, 2)));
    }
    let (third, fourth) = (open(FrontEnd::Http, 2).unwrap(), open(FrontEnd::Http, 2).unwrap());
    assert_eq!(reached(open(FrontEnd::Http, 3)), Some((Limit::Connections, 3)));
    assert!(open(FrontEnd::Amqp, 3).is_ok(), "another protocol has places of its own");

    let held = first.party(&key("k"), "default").unwrap();
    assert_eq!(reached(second.party(&key("k"), "default")), Some((Limit::KeyConnections, 1)));
    assert!(second.party(&key("l"), "default").is_ok());
    assert!(second.party(&key("k"), "default").is_ok(), "it has its place by another key");
    assert!(first.party(&key("k"), "default").is_ok(), "it has it already");
    assert_eq!(reached(third.party(&key("k"), "default")), Some((Limit::KeyConnections, 1)));
    drop((first, held));
    assert!(third.party(&key("k"), "default").is_ok());
    drop((second, fourth));
    assert!(open(FrontEnd::Http, 1).is_ok());
}

/// A key of an entity is another than the node's of the same name; a certificate stands for its key.
#[test]
fn a_key_is_one_whatever_it_is_proven_with() {
    let ledger = ledger(&[(Limit::KeyEntities, 1)]);
    let slot = ledger.open(FrontEnd::Grpc, ip(1)).unwrap();
    let create =
        |principal: &Principal| reached(slot.party(principal, "default").unwrap().create());
    let over = Some((Limit::KeyEntities, 1));
    let rule = |entity: &str| Principal::Rule { entity: entity.into(), name: "k".into() };
    let certificate = Principal::Certificate { subject: "CN=k".into(), key: "k".into() };
    for (principal, expected) in [
        (key("k"), None),
        (key("k"), over),
        (certificate, over),
        (rule("q"), None),
        (rule("q"), over),
        (rule("other"), None),
        (Principal::Anyone, None),
        (Principal::Anyone, over),
    ] {
        assert_eq!(create(&principal), expected, "{principal}");
    }
    // Coming again is no way around it.
    drop(slot);
    let again = ledger.open(FrontEnd::Grpc, ip(1)).unwrap();
    assert_eq!(reached(again.party(&key("k"), "default").unwrap().create()), over);
}

#[test]
fn quota_8_what_a_key_may_not_ask_for_costs_its_address_nothing() {
    let ledger = ledger(&[(Limit::AddressRequests, 15), (Limit::KeyRequests, 10)]);
    let slot = ledger.open(FrontEnd::Http, ip(1)).unwrap();
    let (k, l) =
        (slot.party(&key("k"), "default").unwrap(), slot.party(&key("l"), "default").unwrap());
    assert_eq!(reached(k.ask(10)), None);
    for _ in 0..100 {
        let told = reached(k.ask(5));
        assert_eq!(told, Some((Limit::KeyRequests, 10)));
    }
    assert_eq!(reached(l.ask(5)), None);
    assert_eq!(reached(l.ask(5)), Some((Limit::AddressRequests, 15)));
    assert_eq!(reached(l.ask(0)), None, "what costs nothing is done");
    ledger.change(Settings::default());
    assert_eq!(reached(l.ask(100)), None, "there is no limit any more");
}

#[test]
fn bytes_in_flight_are_counted_until_they_are_dropped() {
    let ledger = ledger(&[(Limit::ConnectionBytes, 2), (Limit::KeyBytes, 3)]);
    let slot = || ledger.open(FrontEnd::Http, ip(1)).unwrap();
    let (a, b) =
        (slot().party(&key("k"), "default").unwrap(), slot().party(&key("k"), "default").unwrap());
    let first = a.carry(1_500).unwrap();
    assert_eq!(reached(a.carry(1_000)), Some((Limit::ConnectionBytes, 2)));
    let second = b.carry(1_500).unwrap();
    assert_eq!(reached(b.carry(500)), Some((Limit::KeyBytes, 3)));
    let other = slot().party(&key("l"), "default").unwrap();
    let large = other.carry(100_000).expect("what comes first is taken");
    drop((first, second, large));
    assert!(a.carry(2_000).is_ok());
    let books = ledger.books(FrontEnd::Http);
    assert_eq!(books.bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn a_connection_is_listed_while_somebody_has_its_place() {
    let ledger = ledger(&[]);
    let first = ledger.open(FrontEnd::Amqp, ip(1)).unwrap();
    let second = ledger.open(FrontEnd::Grpc, ip(2)).unwrap();
    first.introduce(|| ClientInfo::new("c", "p 1"));
    first.introduce(|| ClientInfo::new("other", ""));
    let party = first.party(&key("k"), "default").unwrap();
    let links = [LinkRole::Sends, LinkRole::Receives].map(|role| first.list_link(role, "q"));
    first.count_bytes(3, 4);
    let all = ledger.connections(None, 10);
    assert_eq!(all.len(), 2);
    let told = &all[0];
    assert_eq!(told.principal, Some(key("k")));
    assert_eq!(told.client, Some(ClientInfo::new("c", "p 1")));
    assert_eq!((told.links_count, told.links[1].role), (2, LinkRole::Receives));
    assert_eq!((told.received_bytes, told.sent_bytes), (3, 4));
    assert_eq!((all[1].front_end, &all[1].principal), (FrontEnd::Grpc, &None));

    // Pages; one of another process is no place in the order.
    assert_eq!(ledger.connections(None, 1).len(), 1);
    assert_eq!(ledger.connections(Some(told.id), 10)[0].id, all[1].id);
    let foreign = ConnectionId { run: told.id.run + 1, number: told.id.number };
    assert_eq!(ledger.connections(Some(foreign), 10).len(), 2);

    drop(links);
    drop(first);
    assert_eq!(ledger.connections(None, 10)[0].links_count, 0, "its party still has it");
    drop((party, second));
    assert!(ledger.connections(None, 10).is_empty());
}

#[test]
fn whoever_serves_a_connection_hears_that_it_is_to_end() {
    let ledger = ledger(&[]);
    let slot = ledger.open(FrontEnd::Amqp, ip(1)).unwrap();
    let id = ledger.connections(None, 1)[0].id;
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut closing = Box::pin(slot.closing());
    assert!(closing.as_mut().poll(&mut cx).is_pending());
    for other in
        [ConnectionId { run: id.run + 1, ..id }, ConnectionId { number: id.number + 1, ..id }]
    {
        assert!(!ledger.close(other), "{other}");
    }
    assert!(closing.as_mut().poll(&mut cx).is_pending());
    assert!(ledger.close(id) && ledger.close(id));
    assert!(closing.as_mut().poll(&mut cx).is_ready());
    drop(closing);
    drop(slot);
    assert!(!ledger.close(id), "it is gone");
}

#[test]
fn quota_39_of_many_that_come_at_once_one_is_first() {
    for _ in 0..200 {
        let (count, begin) = (AtomicU64::new(0), std::sync::Barrier::new(4));
        let taken = std::thread::scope(|threads| {
            let add = || {
                begin.wait();
                add(&count, 3_000, 4)
            };
            let all: Vec<_> = (0..4).map(|_| threads.spawn(add)).collect();
            all.into_iter().filter_map(|one| one.join().ok()).filter(|taken| *taken).count()
        });
        assert_eq!((taken, count.into_inner()), (1, 3_000));
    }
}
