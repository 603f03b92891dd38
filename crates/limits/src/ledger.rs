//! Where everything is counted that a limit is for.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use auth::{Principal, network};

use crate::account::{Account, Accounts, enter, leave};
use crate::exceeded::Exceeded;
use crate::limit::{FrontEnd, Limit, Settings};
use crate::metric;
use crate::rate::{Bucket, Rate};

/// What waits for a key's bytes to be stored is worth another try then.
const BYTES_WAIT: Duration = Duration::from_secs(2);

/// The books of a node. Clones are one.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Books>);

#[derive(Debug)]
struct Books {
    max: [AtomicU64; Limit::ALL.len()],
    front_ends: [FrontEndBooks; FrontEnd::ALL.len()],
    addresses: Accounts<IpAddr>,
    keys: Accounts<KeyName>,
    /// The zero of the rates' time.
    started: Instant,
}

/// What the clients of one protocol have together.
#[derive(Debug)]
pub(crate) struct FrontEndBooks {
    connections_max: AtomicU64,
    pub connections: AtomicU64,
    pub links: AtomicU64,
    pub sessions: AtomicU64,
    pub bytes: AtomicU64,
    /// Since the start, as the next.
    pub opened: AtomicU64,
    pub requests: AtomicU64,
}

impl Default for FrontEndBooks {
    fn default() -> FrontEndBooks {
        let [connections, links, sessions, bytes, opened, requests] = Default::default();
        let connections_max = u64::MAX.into();
        FrontEndBooks { connections_max, connections, links, sessions, bytes, opened, requests }
    }
}

/// A key, by the entity whose rule it is of, or empty, and its name.
type KeyName = (String, String);

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new(Settings::default())
    }
}

impl Ledger {
    pub fn new(settings: Settings) -> Ledger {
        let books = Books {
            max: Default::default(),
            front_ends: Default::default(),
            addresses: Accounts::default(),
            keys: Accounts::default(),
            started: Instant::now(),
        };
        let ledger = Ledger(Arc::new(books));
        ledger.change(settings);
        ledger
    }

    /// These from now on. What is there already stays, however much it is.
    pub fn change(&self, settings: Settings) {
        for limit in Limit::ALL {
            self.0.max[limit.place()].store(settings.get(*limit), Ordering::Relaxed);
        }
    }

    /// Most connections of a protocol (QUOTA-13). By default any number.
    pub fn limit_connections(&self, front_end: FrontEnd, max: usize) {
        self.books(front_end).connections_max.store(max as u64, Ordering::Relaxed);
    }

    /// How much there may be; 0: any number.
    pub fn max(&self, limit: Limit) -> u64 {
        self.0.max[limit.place()].load(Ordering::Relaxed)
    }

    /// The same, where there is no limit all that can be counted.
    fn bound(&self, limit: Limit) -> u64 {
        match self.max(limit) {
            0 => u64::MAX,
            max => max,
        }
    }

    /// A connection came from this address.
    ///
    /// # Errors
    /// It is one too many, of all or of its address.
    pub fn open(&self, front_end: FrontEnd, address: IpAddr) -> Result<Slot, Exceeded> {
        let books = self.books(front_end);
        let connections_max = books.connections_max.load(Ordering::Relaxed);
        if !enter(&books.connections, connections_max) {
            return Err(self.refuse(
                front_end,
                Limit::Connections,
                connections_max,
                Duration::ZERO,
            ));
        }
        let account = self.0.addresses.of(network(address), self.now_ns());
        let limit = Limit::AddressConnections;
        if !enter(&account.connections, self.bound(limit)) {
            leave(&books.connections);
            return Err(self.refuse(front_end, limit, self.max(limit), Duration::ZERO));
        }
        books.opened.fetch_add(1, Ordering::Relaxed);
        let (key, bytes) = (OnceLock::new(), AtomicU64::new(0));
        let slot =
            ConnectionBooks { ledger: self.clone(), front_end, address: account, key, bytes };
        Ok(Slot(Arc::new(slot)))
    }

    /// Tells the recorder how things stand.
    pub fn sample(&self) {
        for front_end in FrontEnd::ALL {
            metric::sampled(front_end, self.books(front_end));
        }
    }

    pub(crate) fn books(&self, front_end: FrontEnd) -> &FrontEndBooks {
        &self.0.front_ends[front_end.place()]
    }

    /// Counts a refusal.
    pub(crate) fn refuse(
        &self,
        front_end: FrontEnd,
        limit: Limit,
        max: u64,
        wait: Duration,
    ) -> Exceeded {
        metric::refused(front_end, limit, 1);
        Exceeded { limit, max, wait }
    }

    fn account_of(&self, principal: &Principal) -> Arc<Account> {
        let name = match principal {
            // Who has no key counts as one with all others who have none.
            Principal::Anyone | Principal::JoinToken { .. } => Default::default(),
            Principal::Rule { entity, name } => (entity.to_string(), name.to_string()),
            Principal::Key { name: key } | Principal::Certificate { key, .. } => {
                (String::new(), key.to_string())
            }
        };
        self.0.keys.of(name, self.now_ns())
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The place of a connection. Clones are one; it is free when the last of them is dropped.
#[derive(Clone, Debug)]
pub struct Slot(Arc<ConnectionBooks>);

#[derive(Debug)]
struct ConnectionBooks {
    ledger: Ledger,
    front_end: FrontEnd,
    address: Arc<Account>,
    /// The first that something was proven with.
    key: OnceLock<Holder>,
    /// In flight.
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Holder {
    principal: Principal,
    account: Arc<Account>,
}

impl Slot {
    /// The connection proved who it is, or a request on it did. It counts as one of the first key that is
    /// proven on it, for as long as it lasts.
    ///
    /// # Errors
    /// It is one too many of that key.
    pub fn party(&self, principal: &Principal) -> Result<Party, Exceeded> {
        let ConnectionBooks { ledger, front_end, key, .. } = &*self.0;
        let of = |account: &Arc<Account>| Party { slot: self.clone(), account: account.clone() };
        match key.get() {
            Some(holder) if holder.principal == *principal => return Ok(of(&holder.account)),
            // It has its place already.
            Some(_) => return Ok(of(&ledger.account_of(principal))),
            None => (),
        }
        let account = ledger.account_of(principal);
        let limit = Limit::KeyConnections;
        if !enter(&account.connections, ledger.bound(limit)) {
            return Err(ledger.refuse(*front_end, limit, ledger.max(limit), Duration::ZERO));
        }
        let holder = Holder { principal: principal.clone(), account: account.clone() };
        if let Err(holder) = key.set(holder) {
            // Another request was first.
            leave(&holder.account.connections);
        }
        Ok(of(&account))
    }

    /// Somebody asks for something who has not proved who he is. `credits`: as QUOTA-34 has them.
    ///
    /// # Errors
    /// His address asks for too much.
    pub fn ask(&self, credits: u64) -> Result<(), Exceeded> {
        self.0.ledger.books(self.0.front_end).requests.fetch_add(1, Ordering::Relaxed);
        self.take(Limit::AddressRequests, &self.0.address.requests, credits)
    }

    /// Where it is counted how many links, sessions and bytes in flight there are.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    pub(crate) fn front_end(&self) -> FrontEnd {
        self.0.front_end
    }

    /// Counts what another part of the connection refused as over a limit.
    pub fn count_refused(&self, limit: Limit, count: u64) {
        if count > 0 {
            metric::refused(self.0.front_end, limit, count);
        }
    }

    fn rate(&self, limit: Limit) -> Option<Rate> {
        let max = self.0.ledger.max(limit);
        (max > 0).then(|| Rate { max, window: limit.window() })
    }

    fn take(&self, limit: Limit, from: &Bucket, count: u64) -> Result<(), Exceeded> {
        let ConnectionBooks { ledger, front_end, .. } = &*self.0;
        let Some(rate) = self.rate(limit).filter(|_| count > 0) else { return Ok(()) };
        from.take(count, rate, ledger.now_ns()).map_err(|wait_ns| {
            ledger.refuse(*front_end, limit, rate.max, Duration::from_nanos(wait_ns))
        })
    }
}

impl Drop for ConnectionBooks {
    fn drop(&mut self) {
        leave(&self.ledger.books(self.front_end).connections);
        leave(&self.address.connections);
        if let Some(holder) = self.key.get() {
            leave(&holder.account.connections);
        }
    }
}

/// Whoever asks for something on a connection, by the key he has proven.
#[derive(Clone, Debug)]
pub struct Party {
    slot: Slot,
    pub(crate) account: Arc<Account>,
}

impl Party {
    /// Something is asked for. `credits`: as QUOTA-34 has them.
    ///
    /// # Errors
    /// The address or the key asks for too much: nothing is done.
    pub fn ask(&self, credits: u64) -> Result<(), Exceeded> {
        self.slot.ask(credits)?;
        let asked = self.slot.take(Limit::KeyRequests, &self.account.requests, credits);
        if asked.is_err()
            && let Some(rate) = self.slot.rate(Limit::AddressRequests)
        {
            self.slot.0.address.requests.give_back(credits, rate);
        }
        asked
    }

    /// An entity is to be created.
    ///
    /// # Errors
    /// The key creates too many: nothing is done.
    pub fn create(&self) -> Result<(), Exceeded> {
        self.slot.take(Limit::KeyEntities, &self.account.entities, 1)
    }

    /// Takes what came until it is stored or answered. What comes first is taken, however much it is.
    ///
    /// # Errors
    /// The connection or the key has too much under way: nothing is done.
    pub fn carry(&self, bytes: usize) -> Result<Load, Exceeded> {
        let ConnectionBooks { ledger, front_end, bytes: of_connection, .. } = &*self.slot.0;
        let bytes = bytes as u64;
        let over = |limit| ledger.refuse(*front_end, limit, ledger.max(limit), BYTES_WAIT);
        if !add(of_connection, bytes, ledger.max(Limit::ConnectionBytes)) {
            return Err(over(Limit::ConnectionBytes));
        }
        if !add(&self.account.bytes, bytes, ledger.max(Limit::KeyBytes)) {
            of_connection.fetch_sub(bytes, Ordering::Relaxed);
            return Err(over(Limit::KeyBytes));
        }
        ledger.books(*front_end).bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(Load { party: self.clone(), bytes })
    }

    /// The same where the connection counts by itself what it has ([`crate::Usage`]).
    ///
    /// # Errors
    /// The key has too much under way: nothing is done.
    pub fn has_room(&self) -> Result<(), Exceeded> {
        let ConnectionBooks { ledger, front_end, .. } = &*self.slot.0;
        let (limit, max) = (Limit::KeyBytes, ledger.max(Limit::KeyBytes));
        match max > 0 && self.account.bytes.load(Ordering::Relaxed) > max.saturating_mul(1_024) {
            true => Err(ledger.refuse(*front_end, limit, max, BYTES_WAIT)),
            false => Ok(()),
        }
    }
}

/// Adds bytes to what is in flight, in one step: of two that come at once one is first. `false`: it would be
/// more than so many KiB; 0 is no limit.
fn add(count: &AtomicU64, bytes: u64, kibibytes_max: u64) -> bool {
    let fits = |now: u64| {
        kibibytes_max == 0 || now == 0 || now + bytes <= kibibytes_max.saturating_mul(1_024)
    };
    let add = |now: u64| fits(now).then_some(now + bytes);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
}

/// Bytes that came and are not stored or answered; they are free again when it is dropped.
#[derive(Debug)]
pub struct Load {
    party: Party,
    bytes: u64,
}

impl Drop for Load {
    fn drop(&mut self) {
        let Load { party: Party { slot, account }, bytes } = self;
        slot.0.bytes.fetch_sub(*bytes, Ordering::Relaxed);
        account.bytes.fetch_sub(*bytes, Ordering::Relaxed);
        slot.0.ledger.books(slot.0.front_end).bytes.fetch_sub(*bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Principal {
        Principal::Key { name: name.into() }
    }

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
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

        let held = first.party(&key("k")).unwrap();
        assert_eq!(reached(second.party(&key("k"))), Some((Limit::KeyConnections, 1)));
        assert!(second.party(&key("l")).is_ok());
        assert!(second.party(&key("k")).is_ok(), "it has its place by another key");
        assert!(first.party(&key("k")).is_ok(), "it has it already");
        assert_eq!(reached(third.party(&key("k"))), Some((Limit::KeyConnections, 1)));
        drop((first, held));
        assert!(third.party(&key("k")).is_ok());
        drop((second, fourth));
        assert!(open(FrontEnd::Http, 1).is_ok());
    }

    /// A key of an entity is another than the node's of the same name; a certificate stands for its key.
    #[test]
    fn a_key_is_one_whatever_it_is_proven_with() {
        let ledger = ledger(&[(Limit::KeyEntities, 1)]);
        let slot = ledger.open(FrontEnd::Grpc, ip(1)).unwrap();
        let create = |principal: &Principal| reached(slot.party(principal).unwrap().create());
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
        assert_eq!(reached(again.party(&key("k")).unwrap().create()), over);
    }

    #[test]
    fn quota_8_what_a_key_may_not_ask_for_costs_its_address_nothing() {
        let ledger = ledger(&[(Limit::AddressRequests, 15), (Limit::KeyRequests, 10)]);
        let slot = ledger.open(FrontEnd::Http, ip(1)).unwrap();
        let (k, l) = (slot.party(&key("k")).unwrap(), slot.party(&key("l")).unwrap());
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
        let (a, b) = (slot().party(&key("k")).unwrap(), slot().party(&key("k")).unwrap());
        let first = a.carry(1_500).unwrap();
        assert_eq!(reached(a.carry(1_000)), Some((Limit::ConnectionBytes, 2)));
        let second = b.carry(1_500).unwrap();
        assert_eq!(reached(b.carry(500)), Some((Limit::KeyBytes, 3)));
        let other = slot().party(&key("l")).unwrap();
        let large = other.carry(100_000).expect("what comes first is taken");
        drop((first, second, large));
        assert!(a.carry(2_000).is_ok());
        let books = ledger.books(FrontEnd::Http);
        assert_eq!(books.bytes.load(Ordering::Relaxed), 0);
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
}
