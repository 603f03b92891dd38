//! Links that can be hurt: a proxy in user space for every ordered pair of nodes, and one from all
//! clients to each node. No privileges are needed.
//!
//! Conditions belong to a direction of travel, not to a connection: what node 1 says to node 2 may be
//! held back while what node 2 says to node 1 arrives, on whoever's connection it travels.

mod snapshots;

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::RngExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use snapshots::Snapshots;

const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks between reading and writing: at 16 KiB each, what a long link holds.
const UNDER_WAY_MAX: usize = 256;
/// A lost segment is sent again after the sender's timeout.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// Connections that wait to be accepted.
const WAITING_MAX: u32 = 1024;
/// All clients, as a node.
pub const CLIENTS: u64 = 0;

/// Who speaks to whom. All clients together are node 0.
pub type Flow = (u64, u64);

/// How one direction is at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition {
    /// Nothing arrives, and nobody is told. When it ends, what was said arrives, as TCP would have it.
    pub cut: bool,
    pub delay: Duration,
    /// Up to so much more, drawn anew for each chunk.
    pub jitter: Duration,
    /// Of chunks, how many must be sent again: they and all behind them come so much later.
    pub loss: f64,
    pub bytes_per_second: Option<u64>,
    /// Of snapshots that are sent this way, bits are flipped.
    pub harms_snapshots: bool,
}

/// All links of a cluster. Dropped, they are closed.
pub struct Links {
    flows: Arc<Flows>,
    gates: BTreeMap<u64, Gate>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Flows {
    conditions: Mutex<BTreeMap<Flow, watch::Sender<Condition>>>,
    /// How often connections between nodes were ended.
    severed: watch::Sender<u64>,
    flipped: AtomicU64,
}

impl Flows {
    fn with<T>(&self, flow: Flow, look: impl FnOnce(&watch::Sender<Condition>) -> T) -> T {
        let mut flows = self.conditions.lock().unwrap_or_else(|poison| poison.into_inner());
        look(flows.entry(flow).or_insert_with(|| watch::Sender::new(Condition::default())))
    }
}

impl Default for Links {
    fn default() -> Links {
        Links { flows: Arc::default(), gates: BTreeMap::new(), tasks: JoinSet::new() }
    }
}

impl Links {
    /// Opens a link from one to the other, who listens at `to_address`; where it is entered.
    pub async fn open(&mut self, from: u64, to: u64, to_address: &str) -> io::Result<String> {
        let entrance = Arc::new(Entrance::reserve()?);
        let address = entrance.address.to_string();
        entrance.listen()?;
        self.gate(to).all().push(entrance.clone());
        let link = Link { from, to, address: to_address.to_owned(), flows: self.flows.clone() };
        self.tasks.spawn(link.serve(entrance));
        Ok(address)
    }

    /// Of all links that lead to a node, those of later, too.
    pub fn gate(&mut self, to: u64) -> Gate {
        self.gates.entry(to).or_default().clone()
    }

    /// Sets how one direction is from now on.
    pub fn set(&self, flow: Flow, condition: Condition) {
        self.flows.with(flow, |sender| sender.send_replace(condition));
    }

    /// All directions are as they should be.
    pub fn heal(&self) {
        let flows = self.flows.conditions.lock().unwrap_or_else(|poison| poison.into_inner());
        for sender in flows.values() {
            sender.send_replace(Condition::default());
        }
    }

    /// Ends all connections between nodes: they make new ones.
    pub fn sever(&self) {
        self.flows.severed.send_modify(|times| *times += 1);
    }

    /// What carries connections that were taken elsewhere, in these links' conditions.
    pub fn carrier(&self) -> Carrier {
        Carrier(self.flows.clone())
    }

    /// Bits of snapshots that were flipped since the last look.
    pub fn take_flipped(&self) -> u64 {
        self.flows.flipped.swap(0, Ordering::Relaxed)
    }
}

/// Where a node is entered, by all links that lead to it. While it is closed they refuse, as the node's machine would where
/// no process listens.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<Vec<Arc<Entrance>>>>);

impl Gate {
    /// Has connections be accepted. Done when it returns: a node must not speak before it is reached.
    ///
    /// # Errors
    /// A port cannot be listened on.
    pub fn open(&self) -> io::Result<()> {
        self.all().iter().try_for_each(|entrance| entrance.listen())
    }

    pub fn close(&self) {
        self.all().iter().for_each(|entrance| drop(entrance.listener.send_replace(None)));
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Entrance>>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// A port that stays ours while nobody listens on it, when it refuses.
struct Entrance {
    address: SocketAddr,
    /// Bound, and never listens.
    _reserved: TcpSocket,
    listener: watch::Sender<Option<Arc<TcpListener>>>,
}

impl Entrance {
    fn reserve() -> io::Result<Entrance> {
        let reserved = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let (address, listener) = (reserved.local_addr()?, watch::Sender::new(None));
        Ok(Entrance { address, _reserved: reserved, listener })
    }

    fn listen(&self) -> io::Result<()> {
        if self.listener.borrow().is_none() {
            let listener = bound(self.address)?.listen(WAITING_MAX)?;
            self.listener.send_replace(Some(Arc::new(listener)));
        }
        Ok(())
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[derive(Clone)]
struct Link {
    from: u64,
    to: u64,
    address: String,
    flows: Arc<Flows>,
}

impl Link {
    /// Accepts connections while the gate is open.
    async fn serve(self, entrance: Arc<Entrance>) {
        let mut connections = JoinSet::new();
        let mut listeners = entrance.listener.subscribe();
        drop(entrance);
        loop {
            let listener = listeners.borrow_and_update().clone();
            let accepting = async {
                match &listener {
                    Some(listener) => listener.accept().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                accepted = accepting => {
                    if let Ok((near, _)) = accepted {
                        connections.spawn(self.clone().connect(near));
                    }
                }
                changed = listeners.changed() => if changed.is_err() { return },
            }
            while connections.try_join_next().is_some() {}
        }
    }

    /// One connection, until both directions have ended.
    async fn connect(self, near: TcpStream) {
        let Ok(far) = TcpStream::connect(&self.address).await else {
            // Its caller sees the connection end once anything passes.
            for flow in [(self.from, self.to), (self.to, self.from)] {
                let mut condition = self.flows.with(flow, watch::Sender::subscribe);
                let _ = condition.wait_for(|now| !now.cut).await;
            }
            return;
        };
        if near.set_nodelay(true).and(far.set_nodelay(true)).is_err() {
            return;
        }
        Carrier(self.flows).carry((self.from, self.to), near, far).await;
    }
}

/// Carries connections, as the conditions of their flows are.
#[derive(Clone)]
pub struct Carrier(Arc<Flows>);

impl Carrier {
    /// One connection, until both directions have ended. `near` is the end of whoever opened it, who is the first of the
    /// flow.
    pub async fn carry(self, (from, to): Flow, near: TcpStream, far: TcpStream) {
        let flows = self.0;
        let (from_near, to_near) = near.into_split();
        let (from_far, to_far) = far.into_split();
        let there = flows.with((from, to), watch::Sender::subscribe);
        let back = flows.with((to, from), watch::Sender::subscribe);
        let mut snapshots = Snapshots::default();
        let flipped = &flows.flipped;
        // Whoever opens a connection is who sends snapshots over it.
        let harm = |chunk: &mut [u8], hits: bool| {
            let now = snapshots.pass(chunk, hits, flipped.load(Ordering::Relaxed));
            flipped.fetch_add(now, Ordering::Relaxed);
        };
        let carrying = async {
            tokio::join!(
                carry(from_near, to_far, there, harm),
                carry(from_far, to_near, back, |_, _| ())
            )
        };
        let mut severed = flows.severed.subscribe();
        let severed = async {
            match from {
                CLIENTS => pending().await,
                // Fails only with the links, and then there is nothing left to carry.
                _ => drop(severed.changed().await),
            }
        };
        tokio::select! {
            _ = carrying => (),
            () = severed => (),
        }
    }
}

/// Carries one direction to its end. Reading and writing go side by side, so that a long delay does
/// not make a link narrow. `harm` is told of each chunk, and whether its snapshots are to be harmed.
async fn carry(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    condition: watch::Receiver<Condition>,
    harm: impl FnMut(&mut [u8], bool),
) {
    let (sender, receiver) = mpsc::channel(UNDER_WAY_MAX);
    let writing = write(to, receiver, condition.clone());
    tokio::join!(read(from, sender, condition, harm), writing);
}

async fn read(
    mut from: OwnedReadHalf,
    sender: mpsc::Sender<(Instant, Vec<u8>)>,
    condition: watch::Receiver<Condition>,
    mut harm: impl FnMut(&mut [u8], bool),
) {
    // Behind a chunk that was lost all others wait.
    let mut not_before = Instant::now();
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        // An end travels like anything else: held back where the link is cut.
        let Ok(count @ 1..) = from.read(&mut chunk).await else { return };
        chunk.truncate(count);
        let now = *condition.borrow();
        harm(&mut chunk, now.harms_snapshots);
        let mut delay = now.delay + now.jitter.mul_f64(rand::random());
        if now.loss > 0.0 && rand::rng().random_bool(now.loss.min(1.0)) {
            delay += RETRANSMISSION;
        }
        not_before = not_before.max(Instant::now() + delay);
        if sender.send((not_before, chunk)).await.is_err() {
            return;
        }
    }
}

async fn write(
    mut to: OwnedWriteHalf,
    mut receiver: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut condition: watch::Receiver<Condition>,
) {
    while let Some((at, chunk)) = receiver.recv().await {
        tokio::time::sleep_until(at).await;
        if condition.wait_for(|now| !now.cut).await.is_err() {
            return; // The links are closed.
        }
        let speed = condition.borrow().bytes_per_second;
        if let Some(speed) = speed {
            let takes = chunk.len() as f64 / speed.max(1) as f64;
            tokio::time::sleep(Duration::from_secs_f64(takes)).await;
        }
        if to.write_all(&chunk).await.is_err() {
            return; // And with the receiver gone, reading ends as well.
        }
    }
    // The end was said before the link was cut, or waits like everything.
    if condition.wait_for(|now| !now.cut).await.is_ok() {
        let _ = to.shutdown().await; // It may be gone already.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links from 1 to 2, who sends everything back.
    async fn linked() -> (Links, TcpStream) {
        let echo = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = echo.local_addr().expect("bound").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = echo.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        let mut links = Links::default();
        let entry = links.open(1, 2, &address).await.expect("a port");
        (links, TcpStream::connect(entry).await.expect("it listens"))
    }

    async fn answer(stream: &mut TcpStream) -> [u8; 4] {
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn a_cut_holds_back_one_direction_and_gives_it_back_when_healed() {
        for flow in [(1, 2), (2, 1)] {
            let (links, mut stream) = linked().await;
            stream.write_all(b"ping").await.expect("open");
            assert_eq!(&answer(&mut stream).await, b"ping");
            links.set(flow, Condition { cut: true, ..Condition::default() });
            stream.write_all(b"pong").await.expect("open");
            let wait = Duration::from_millis(60);
            assert!(tokio::time::timeout(wait, answer(&mut stream)).await.is_err());
            links.heal();
            assert_eq!(&answer(&mut stream).await, b"pong");
        }
    }

    #[tokio::test]
    async fn a_closed_gate_refuses_and_an_open_one_accepts_at_once() {
        let far = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut links = Links::default();
        let entry = links.open(1, 2, &far.local_addr().expect("bound").to_string()).await;
        let entry = entry.expect("a port");
        let gate = links.gate(2);
        for _ in 0..3 {
            TcpStream::connect(&entry).await.expect("it is open");
            gate.close();
            // The link's task lets go of it a moment later.
            while TcpStream::connect(&entry).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            gate.open().expect("its own port");
            TcpStream::connect(&entry).await.expect("it is open as soon as it says so");
        }
    }

    #[tokio::test]
    async fn delay_holds_for_each_direction_and_does_not_add_up_over_chunks() {
        let (links, mut stream) = linked().await;
        const CHUNKS: u32 = 40;
        let delay = Duration::from_millis(200);
        links.set((2, 1), Condition { delay, ..Condition::default() });
        let begun = Instant::now();
        for _ in 0..CHUNKS {
            stream.write_all(b"ping").await.expect("open");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for _ in 0..CHUNKS {
            assert_eq!(&answer(&mut stream).await, b"ping");
        }
        let took = begun.elapsed();
        assert!(took >= delay && took < delay * CHUNKS / 2, "{took:?}");
    }

    #[tokio::test]
    async fn what_is_severed_ends_and_is_made_anew() {
        let (links, mut stream) = linked().await;
        stream.write_all(b"ping").await.expect("open");
        assert_eq!(&answer(&mut stream).await, b"ping");
        let entry = stream.peer_addr().expect("connected");
        links.sever();
        let mut rest = Vec::new();
        // An end or a reset, as what was under way has it.
        let _ = stream.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
        let mut stream = TcpStream::connect(entry).await.expect("it listens");
        stream.write_all(b"pong").await.expect("open");
        assert_eq!(&answer(&mut stream).await, b"pong");
    }

    #[tokio::test]
    async fn an_end_travels_through() {
        let (_links, mut stream) = linked().await;
        stream.write_all(b"last").await.expect("open");
        stream.shutdown().await.expect("open");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("an end");
        assert_eq!(all, b"last");
    }
}
