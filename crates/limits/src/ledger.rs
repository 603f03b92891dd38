//! Where everything is counted that a limit is for.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use auth::{Principal, network};

use crate::account::{Account, Accounts, enter, leave};
use crate::connection::{
    ClientInfo, Connection, ConnectionId, ConnectionInfo, LinkRole, ListedLink, Origin,
};
use crate::exceeded::Exceeded;
use crate::limit::{FrontEnd, Limit, Settings};
use crate::metric;
use crate::rate::{Bucket, Rate};
use crate::registry::Registry;
use crate::tenant::{Tenant, Tenants};

/// As Service Bus tells it of a namespace that is throttled (QUOTA-8).
const NAMESPACE_WAIT_MIN: Duration = Duration::from_secs(2);
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
    tenants: Tenants,
    /// The connections that have a place.
    registry: Registry,
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
            tenants: Tenants::default(),
            registry: Registry::new(),
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

    /// A connection came. It is listed from now on.
    ///
    /// # Errors
    /// It is one too many, of all or of its address.
    pub fn open(&self, front_end: FrontEnd, origin: Origin) -> Result<Slot, Exceeded> {
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
        let account = self.0.addresses.of(network(origin.peer.ip()), self.now_ns());
        let limit = Limit::AddressConnections;
        if !enter(&account.connections, self.bound(limit)) {
            leave(&books.connections);
            return Err(self.refuse(front_end, limit, self.max(limit), Duration::ZERO));
        }
        books.opened.fetch_add(1, Ordering::Relaxed);
        let connection = self.0.registry.add(front_end, origin);
        Ok(Slot(Arc::new(ConnectionBooks {
            ledger: self.clone(),
            front_end,
            address: account,
            key: OnceLock::new(),
            tenant: OnceLock::new(),
            bytes: AtomicU64::new(0),
            connection,
        })))
    }

    /// The connections that came after one, or the first ones, in the order in which they came.
    pub fn connections(&self, after: Option<ConnectionId>, max: usize) -> Vec<ConnectionInfo> {
        self.0.registry.after(after, max)
    }

    /// How many there are.
    pub fn connections_count(&self) -> u64 {
        self.0.registry.count()
    }

    /// Has a connection end, as soon as whoever serves it can say goodbye; whether there is one of that id.
    pub fn close(&self, id: ConnectionId) -> bool {
        self.0.registry.close(id)
    }

    /// QUOTA-8: these namespaces may ask for so many credits a second of all nodes together, and others for any number.
    pub fn limit_namespaces(&self, rates: &[(String, u64)]) {
        self.0.tenants.limit(rates);
    }

    /// What was granted in namespaces that have a limit, since this was last asked; once that is something. There is
    /// one who asks.
    pub async fn spent(&self) -> Vec<(String, u64)> {
        self.0.tenants.spent().await
    }

    /// By the word of all nodes nothing more is to be granted in a namespace for so long.
    pub fn owe(&self, namespace: &str, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.0.tenants.of(namespace).1.owe_until(self.now_ns().saturating_add(wait_ns));
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
            // No entity has such a name, nor has any key of a node an empty one.
            Principal::NamespaceRule { namespace, name } => {
                (format!("{namespace}:"), name.to_string())
            }
            Principal::Rule { entity, name } => (entity.to_string(), name.to_string()),
            Principal::WebToken { issuer, subject } => (issuer.to_string(), subject.to_string()),
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
    /// The first that something was asked for in.
    tenant: OnceLock<(Arc<str>, Arc<Tenant>)>,
    /// In flight.
    bytes: AtomicU64,
    connection: Arc<Connection>,
}

#[derive(Debug)]
struct Holder {
    principal: Principal,
    account: Arc<Account>,
}

impl Slot {
    /// As it is listed.
    pub fn id(&self) -> ConnectionId {
        self.0.connection.id
    }

    /// The key that was proven on it first; none as long as nobody has.
    pub fn key_name(&self) -> Option<&str> {
        self.0.connection.principal.get().and_then(Principal::key_name)
    }

    /// The connection proved who it is, or a request on it did. It counts as one of the first key that is
    /// proven on it, for as long as it lasts.
    ///
    /// # Errors
    /// It is one too many of that key.
    pub fn party(&self, principal: &Principal, namespace: &str) -> Result<Party, Exceeded> {
        let account = self.account(principal)?;
        Ok(Party { slot: self.clone(), account, tenant: self.tenant(namespace) })
    }

    fn account(&self, principal: &Principal) -> Result<Arc<Account>, Exceeded> {
        let ConnectionBooks { ledger, front_end, key, .. } = &*self.0;
        match key.get() {
            Some(holder) if holder.principal == *principal => return Ok(holder.account.clone()),
            // It has its place already.
            Some(_) => return Ok(ledger.account_of(principal)),
            None => (),
        }
        let account = ledger.account_of(principal);
        let limit = Limit::KeyConnections;
        if !enter(&account.connections, ledger.bound(limit)) {
            return Err(ledger.refuse(*front_end, limit, ledger.max(limit), Duration::ZERO));
        }
        let holder = Holder { principal: principal.clone(), account: account.clone() };
        match key.set(holder) {
            // Only here, and so only once.
            Ok(()) => drop(self.0.connection.principal.set(principal.clone())),
            // Another request was first.
            Err(holder) => leave(&holder.account.connections),
        }
        Ok(account)
    }

    fn tenant(&self, namespace: &str) -> Arc<Tenant> {
        let ConnectionBooks { ledger, tenant, .. } = &*self.0;
        let tenants = &ledger.0.tenants;
        match tenant.get_or_init(|| tenants.of(namespace)) {
            (name, tenant) if **name == *namespace => tenant.clone(),
            _ => tenants.of(namespace).1,
        }
    }

    /// Somebody asks for something who has not proved who he is. `credits`: as QUOTA-34 has them.
    ///
    /// # Errors
    /// His address asks for too much.
    pub fn ask(&self, credits: u64) -> Result<(), Exceeded> {
        self.0.ledger.books(self.0.front_end).requests.fetch_add(1, Ordering::Relaxed);
        self.take(Limit::AddressRequests, &self.0.address.requests, credits)
    }

    /// What the client says of itself; what it said first counts.
    pub fn introduce(&self, client: impl FnOnce() -> ClientInfo) {
        if !self.0.connection.is_introduced() {
            self.0.connection.introduce(client());
        }
    }

    /// A link or a stream was opened, and is listed until what is returned is dropped. `address`: as the client
    /// names it.
    pub fn list_link(&self, role: LinkRole, address: &str) -> ListedLink {
        ListedLink::new(&self.0.connection, role, address)
    }

    /// So many bytes came and went.
    pub fn count_bytes(&self, received: u64, sent: u64) {
        self.0.connection.count_bytes(received, sent);
    }

    /// Ready once the connection is to end. It wakes the task that asked last: the one that serves the connection.
    pub fn poll_closing(&self, cx: &Context<'_>) -> Poll<()> {
        self.0.connection.poll_closing(cx)
    }

    /// Resolves once the connection is to end.
    pub async fn closing(&self) {
        std::future::poll_fn(|cx| self.poll_closing(cx)).await;
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

    fn give_back(&self, limit: Limit, to: &Bucket, count: u64) {
        if let Some(rate) = self.rate(limit) {
            to.give_back(count, rate);
        }
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
        self.ledger.0.registry.remove(self.connection.id);
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
    tenant: Arc<Tenant>,
}

impl Party {
    /// The connection.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Something is asked for. `credits`: as QUOTA-34 has them.
    ///
    /// # Errors
    /// The address, the key or the namespace asks for too much: nothing is done.
    pub fn ask(&self, credits: u64) -> Result<(), Exceeded> {
        let Party { slot, account, .. } = self;
        slot.ask(credits)?;
        slot.take(Limit::KeyRequests, &account.requests, credits).inspect_err(|_| {
            slot.give_back(Limit::AddressRequests, &slot.0.address.requests, credits);
        })?;
        self.ask_namespace(credits).inspect_err(|_| {
            slot.give_back(Limit::AddressRequests, &slot.0.address.requests, credits);
            slot.give_back(Limit::KeyRequests, &account.requests, credits);
        })
    }

    fn ask_namespace(&self, credits: u64) -> Result<(), Exceeded> {
        let Party { slot: Slot(books), tenant, .. } = self;
        let ConnectionBooks { ledger, front_end, .. } = &**books;
        if tenant.max() == 0 {
            return Ok(());
        }
        match tenant.take(credits, ledger.now_ns()) {
            Ok(()) => {
                ledger.0.tenants.tell();
                Ok(())
            }
            Err(wait) => {
                let wait = wait.max(NAMESPACE_WAIT_MIN);
                Err(ledger.refuse(*front_end, Limit::NamespaceRequests, tenant.max(), wait))
            }
        }
    }

    /// So many messages came to the client (QUOTA-34): the namespace is charged for them, and they are held up by
    /// nothing.
    pub fn deliver(&self, messages: u64) {
        if self.tenant.max() > 0 {
            let ledger = &self.slot.0.ledger;
            self.tenant.charge(messages, ledger.now_ns());
            ledger.0.tenants.tell();
        }
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
        let Load { party: Party { slot, account, .. }, bytes } = self;
        slot.0.bytes.fetch_sub(*bytes, Ordering::Relaxed);
        account.bytes.fetch_sub(*bytes, Ordering::Relaxed);
        slot.0.ledger.books(slot.0.front_end).bytes.fetch_sub(*bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
