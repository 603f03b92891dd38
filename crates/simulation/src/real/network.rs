//! Wires between nodes, as TCP makes them: bytes arrive late, never out of order and never twice; a
//! connection ends with a word or without one. What is held back by a cut arrives when it is mended,
//! unless somebody gave the connection up before.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use replication::{BoxSocket, Dialler, Doorkeeper, Visitor};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::random::Random;

/// How often a caller tries whether a cut is mended.
const KNOCK: Duration = Duration::from_millis(20);

/// The network of one cluster.
#[derive(Clone)]
pub struct SocketNetwork(Arc<Mutex<Net>>);

struct Net {
    now: u64,
    random: Random,
    pipes: BTreeMap<u64, Pipe>,
    made: u64,
    doors: BTreeMap<u64, Door>,
    links: BTreeMap<(u64, u64), Link>,
}

/// One direction of a connection.
struct Pipe {
    from: u64,
    to: u64,
    bytes: VecDeque<(u64, Bytes)>,
    /// The writer is done: after the last byte comes the end.
    closed: bool,
    /// One end is gone; the other hears of it with its next call.
    reset: bool,
    /// One end lost its power: nothing is heard of it.
    silent: bool,
    reader: Option<Waker>,
}

/// Where a node accepts connections.
#[derive(Default)]
struct Door {
    waiting: VecDeque<End>,
    waker: Option<Waker>,
}

/// One direction between two nodes.
#[derive(Clone, Copy, Default)]
struct Link {
    held_until: u64,
    slow_until: u64,
    slow_ms: u64,
}

impl SocketNetwork {
    pub fn new(random: Random) -> SocketNetwork {
        let (pipes, doors, links) = Default::default();
        SocketNetwork(Arc::new(Mutex::new(Net { now: 0, random, pipes, made: 0, doors, links })))
    }

    /// How a node reaches the others, and they it.
    pub fn of(&self, node: u64) -> Arc<Outlet> {
        Arc::new(Outlet { node, network: self.clone() })
    }

    /// Moves time on and tells readers what has arrived.
    pub fn tick(&self, now: u64) {
        let mut net = self.lock();
        net.now = now;
        let Net { pipes, links, .. } = &mut *net;
        let mut wakers = Vec::new();
        pipes.retain(|_, pipe| !(pipe.reset && pipe.reader.is_none() && pipe.closed));
        for pipe in pipes.values_mut() {
            if pipe.is_ready(now, links) {
                wakers.extend(pipe.reader.take());
            }
        }
        drop(net);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Nothing gets from one node to another until then.
    pub fn hold(&self, from: u64, to: u64, until: u64) {
        self.lock().links.entry((from, to)).or_default().held_until = until;
    }

    /// It takes up to so much longer until then.
    pub fn slow(&self, from: u64, to: u64, by_ms: u64, until: u64) {
        let mut net = self.lock();
        let link = net.links.entry((from, to)).or_default();
        (link.slow_ms, link.slow_until) = (by_ms, until);
    }

    /// Breaks all connections between two nodes.
    pub fn reset(&self, one: u64, other: u64) {
        let between = |pipe: &Pipe| {
            (pipe.from, pipe.to) == (one, other) || (pipe.from, pipe.to) == (other, one)
        };
        self.end(between, |pipe| pipe.reset = true);
    }

    /// A node lost its power: its connections say nothing any more.
    pub fn fall_silent(&self, node: u64) {
        self.end(|pipe| pipe.is_of(node), |pipe| pipe.silent = true);
    }

    /// A node is there again: what it does not know, it refuses.
    pub fn speak(&self, node: u64) {
        self.end(|pipe| pipe.is_of(node) && pipe.silent, |pipe| pipe.reset = true);
    }

    /// Everything is plugged in.
    pub fn mend(&self) {
        self.lock().links.clear();
    }

    fn end(&self, which: impl Fn(&Pipe) -> bool, how: impl Fn(&mut Pipe)) {
        let mut net = self.lock();
        let mut wakers = Vec::new();
        for pipe in net.pipes.values_mut().filter(|pipe| which(pipe)) {
            how(pipe);
            wakers.extend(pipe.reader.take());
        }
        drop(net);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a connection if the way is free; `None` if it is not.
    fn open(&self, from: u64, to: u64) -> Option<io::Result<End>> {
        let mut net = self.lock();
        if net.is_held(from, to) || net.is_held(to, from) {
            return None;
        }
        if !net.doors.contains_key(&to) {
            return Some(Err(io::ErrorKind::ConnectionRefused.into()));
        }
        let (there, back) = (net.pipe(from, to), net.pipe(to, from));
        let end = |read, write| End { network: self.clone(), read, write };
        let door = net.doors.get_mut(&to)?;
        door.waiting.push_back(end(there, back));
        let waker = door.waker.take();
        drop(net);
        waker.into_iter().for_each(Waker::wake);
        Some(Ok(end(back, there)))
    }
}

impl Net {
    fn is_held(&self, from: u64, to: u64) -> bool {
        self.links.get(&(from, to)).is_some_and(|link| link.held_until > self.now)
    }

    fn pipe(&mut self, from: u64, to: u64) -> u64 {
        self.made += 1;
        let (bytes, reader) = Default::default();
        let pipe = Pipe { from, to, bytes, closed: false, reset: false, silent: false, reader };
        self.pipes.insert(self.made, pipe);
        self.made
    }

    fn delay(&mut self, from: u64, to: u64) -> u64 {
        let link = self.links.get(&(from, to)).copied().unwrap_or_default();
        let slow = if link.slow_until > self.now { link.slow_ms } else { 0 };
        let usual = if self.random.chance(20) { 30 } else { 2 };
        self.random.between(0, usual + slow)
    }
}

impl Pipe {
    fn is_of(&self, node: u64) -> bool {
        self.from == node || self.to == node
    }

    fn is_ready(&self, now: u64, links: &BTreeMap<(u64, u64), Link>) -> bool {
        if self.reset {
            return true;
        }
        let held = links.get(&(self.from, self.to)).is_some_and(|link| link.held_until > now);
        let due = self.bytes.front().map_or(self.closed, |(due, _)| *due <= now);
        due && !held && !self.silent
    }
}

/// A node's way into the network.
pub struct Outlet {
    node: u64,
    network: SocketNetwork,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} of a simulation", self.node)
    }
}

/// Where a node listens.
pub fn address(node: u64) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, node as u8), 1).into()
}

fn node_at(address: SocketAddr) -> u64 {
    match address {
        SocketAddr::V4(address) => address.ip().octets()[3].into(),
        SocketAddr::V6(_) => 0,
    }
}

impl Dialler for Outlet {
    fn connect(&self, _: u64, to: String) -> BoxFuture<'static, io::Result<BoxSocket>> {
        let (network, from) = (self.network.clone(), self.node);
        let to = to.parse().map_or(0, node_at);
        async move {
            loop {
                let wait = match network.lock().delay(from, to) {
                    0 => Duration::ZERO,
                    ms => Duration::from_millis(ms),
                };
                tokio::time::sleep(wait).await;
                match network.open(from, to) {
                    Some(opened) => return opened.map(|end| Box::new(end) as BoxSocket),
                    None => tokio::time::sleep(KNOCK).await,
                }
            }
        }
        .boxed()
    }
}

impl Doorkeeper for Outlet {
    fn listen(&self, on: SocketAddr) -> io::Result<BoxStream<'static, io::Result<Visitor>>> {
        let node = node_at(on);
        self.network.lock().doors.insert(node, Door::default());
        let threshold = Threshold { node, network: self.network.clone() };
        let accepted = futures::stream::poll_fn(move |cx| {
            let mut net = threshold.network.lock();
            let Some(door) = net.doors.get_mut(&threshold.node) else { return Poll::Ready(None) };
            match door.waiting.pop_front() {
                Some(end) => {
                    let socket = Box::new(end) as BoxSocket;
                    Poll::Ready(Some(Ok(Visitor { socket, credential: None })))
                }
                None => {
                    door.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        Ok(accepted.boxed())
    }
}

/// Nobody is let in any more once it is gone.
struct Threshold {
    node: u64,
    network: SocketNetwork,
}

impl Drop for Threshold {
    fn drop(&mut self) {
        let door = self.network.lock().doors.remove(&self.node);
        drop(door); // Its connections lock the network as they end.
    }
}

/// One end of a connection.
struct End {
    network: SocketNetwork,
    read: u64,
    write: u64,
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut net = self.network.lock();
        let Net { now, pipes, links, .. } = &mut *net;
        let Some(pipe) = pipes.get_mut(&self.read) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        if !pipe.is_ready(*now, links) {
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if pipe.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        while let Some((due, bytes)) = pipe.bytes.front_mut() {
            if *due > *now || buf.remaining() == 0 {
                break;
            }
            let count = bytes.len().min(buf.remaining());
            buf.put_slice(&bytes[..count]);
            bytes.advance(count);
            if bytes.is_empty() {
                pipe.bytes.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut net = self.network.lock();
        let Some((from, to)) = net.pipes.get(&self.write).map(|pipe| (pipe.from, pipe.to)) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let delay = net.delay(from, to);
        let now = net.now;
        let Some(pipe) = net.pipes.get_mut(&self.write) else { return Poll::Pending };
        if pipe.reset {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        // It never overtakes what was sent before.
        let before = pipe.bytes.back().map_or(0, |(due, _)| *due);
        pipe.bytes.push_back(((now + delay).max(before), Bytes::copy_from_slice(bytes)));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(pipe) = self.network.lock().pipes.get_mut(&self.write) {
            pipe.closed = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    /// The other end reads what was written and then the end; its writing is refused.
    fn drop(&mut self) {
        let mut net = self.network.lock();
        if let Some(pipe) = net.pipes.get_mut(&self.write) {
            pipe.closed = true;
        }
        if let Some(pipe) = net.pipes.get_mut(&self.read) {
            (pipe.closed, pipe.reader) = (true, None);
            pipe.reset |= !pipe.silent;
        }
    }
}
