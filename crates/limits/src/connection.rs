//! One connection of a client: where it comes from, who is there, what it holds, and that it is to end.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use auth::Principal;
use futures::task::AtomicWaker;

use crate::limit::FrontEnd;

/// Most characters that are kept of a text that a client says of itself, or of an address it names.
const TEXT_CHARS_MAX: usize = 300;

/// Most links that are told of one connection; beyond it is said how many there are.
pub const LINKS_TOLD_MAX: usize = 100;

/// Which connection, at its node. One of another process of the node never has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId {
    /// By when the process started.
    pub run: u32,
    /// In the order in which they came, from 1.
    pub number: u64,
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}-{}", self.run, self.number)
    }
}

/// It is not as [`ConnectionId`] shows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoConnectionId;

impl FromStr for ConnectionId {
    type Err = NoConnectionId;

    fn from_str(text: &str) -> Result<ConnectionId, NoConnectionId> {
        let (run, number) = text.split_once('-').ok_or(NoConnectionId)?;
        let run = u32::from_str_radix(run, 16).map_err(|_| NoConnectionId)?;
        let id = ConnectionId { run, number: number.parse().map_err(|_| NoConnectionId)? };
        // "+1" and "0A" are read as numbers, and are nobody's.
        if id.to_string() == text { Ok(id) } else { Err(NoConnectionId) }
    }
}

/// Where a connection comes from, and what carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub peer: SocketAddr,
    pub is_tls: bool,
    /// It is spoken in a WebSocket.
    pub is_web_socket: bool,
}

impl Origin {
    /// Plain TCP.
    pub fn plain(peer: SocketAddr) -> Origin {
        Origin { peer, is_tls: false, is_web_socket: false }
    }
}

/// What a client says of itself. Nobody vouches for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientInfo {
    /// AMQP's container id; empty where the protocol has none.
    pub name: String,
    /// Its program or library, with the version where it says that; empty: it does not say.
    pub product: String,
}

impl ClientInfo {
    /// Of texts of any length.
    pub fn new(name: &str, product: &str) -> ClientInfo {
        ClientInfo { name: short(name), product: short(product) }
    }
}

/// No more than is kept, and nothing that a terminal would obey.
fn short(text: &str) -> String {
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().take(TEXT_CHARS_MAX).map(shown).collect()
}

/// What a client does on a link or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRole {
    Sends,
    Receives,
    /// Requests and their answers, tokens and transactions.
    Asks,
}

/// A link of AMQP, or a stream of the native API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    pub role: LinkRole,
    /// As the client names it, without scheme and host.
    pub address: Arc<str>,
}

/// What is told of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    pub id: ConnectionId,
    pub front_end: FrontEnd,
    pub origin: Origin,
    /// By the node's time of day, in milliseconds since the Unix epoch.
    pub opened_at_ms: u64,
    /// Who first proved who he is; absent as long as nobody has.
    pub principal: Option<Principal>,
    /// Absent as long as nothing was said.
    pub client: Option<ClientInfo>,
    /// At most [`LINKS_TOLD_MAX`], in the order in which they were opened.
    pub links: Vec<LinkInfo>,
    /// How many there are.
    pub links_count: usize,
    /// From the client and to it, as its protocol sees them: behind TLS.
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// A connection as the registry has it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub id: ConnectionId,
    front_end: FrontEnd,
    origin: Origin,
    opened_at_ms: u64,
    pub principal: OnceLock<Principal>,
    client: OnceLock<ClientInfo>,
    links: Mutex<Links>,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    is_closing: AtomicBool,
    /// Of the one task that serves the connection.
    closing: AtomicWaker,
}

#[derive(Debug, Default)]
struct Links {
    last: u64,
    open: BTreeMap<u64, LinkInfo>,
}

impl Connection {
    pub fn new(
        id: ConnectionId,
        front_end: FrontEnd,
        origin: Origin,
        opened_at_ms: u64,
    ) -> Connection {
        Connection {
            id,
            front_end,
            origin,
            opened_at_ms,
            principal: OnceLock::new(),
            client: OnceLock::new(),
            links: Mutex::default(),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
            closing: AtomicWaker::new(),
        }
    }

    pub fn info(&self) -> ConnectionInfo {
        let links = self.links();
        ConnectionInfo {
            id: self.id,
            front_end: self.front_end,
            origin: self.origin,
            opened_at_ms: self.opened_at_ms,
            principal: self.principal.get().cloned(),
            client: self.client.get().cloned(),
            links: links.open.values().take(LINKS_TOLD_MAX).cloned().collect(),
            links_count: links.open.len(),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
        }
    }

    /// It is to end: whoever serves it is told.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.closing.wake();
    }

    pub fn poll_closing(&self, cx: &Context<'_>) -> Poll<()> {
        // First, so that a word that comes meanwhile wakes somebody.
        self.closing.register(cx.waker());
        match self.is_closing.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    pub fn introduce(&self, client: ClientInfo) {
        // What was said first counts.
        let _ = self.client.set(client);
    }

    pub fn is_introduced(&self) -> bool {
        self.client.get().is_some()
    }

    pub fn count_bytes(&self, received: u64, sent: u64) {
        for (count, more) in [(&self.received_bytes, received), (&self.sent_bytes, sent)] {
            if more > 0 {
                count.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A link that is listed until this is dropped.
#[derive(Debug)]
pub struct ListedLink {
    connection: Arc<Connection>,
    number: u64,
}

impl ListedLink {
    pub(crate) fn new(connection: &Arc<Connection>, role: LinkRole, address: &str) -> ListedLink {
        let mut links = connection.links();
        links.last += 1;
        let number = links.last;
        links.open.insert(number, LinkInfo { role, address: short(address).into() });
        drop(links);
        ListedLink { connection: connection.clone(), number }
    }
}

impl Drop for ListedLink {
    fn drop(&mut self) {
        self.connection.links().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_shown_and_not_otherwise() {
        let id = ConnectionId { run: 0x1_2ab, number: 17 };
        assert_eq!(id.to_string(), "0012ab-17");
        assert_eq!("0012ab-17".parse(), Ok(id));
        for wrong in ["", "-", "17", "0012ab-", "12ab-17", "0012AB-17", "0012ab-+17", "0012ab-017"]
        {
            assert_eq!(wrong.parse::<ConnectionId>(), Err(NoConnectionId), "{wrong}");
        }
    }

    #[test]
    fn what_a_client_says_of_itself_is_kept_short_and_harmless() {
        let client = ClientInfo::new(&"n".repeat(10_000), "a\u{1b}[2Jb\n");
        assert_eq!(client.name.len(), TEXT_CHARS_MAX);
        assert_eq!(client.product, "a\u{fffd}[2Jb\u{fffd}");
    }
}
