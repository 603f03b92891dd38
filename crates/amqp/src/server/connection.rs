//! One connection: its socket, its engine and its links, in turns.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Sleep, timeout};

use super::access::Access;
use super::links::Links;
use super::note::Note;
use super::{Config, Shared};
use crate::codec::{Error, Map, Value};
use crate::condition;
use crate::engine::{self, Connection, Millis};

/// Room for what is read at a time. An idle connection holds none.
const READ_BYTES: usize = 32 * 1024;
/// Slices written at a time.
const SLICES_MAX: usize = 32;
/// A client that was told that the node ends has so long to say goodbye.
const GOODBYE_MS: u64 = 2_000;
/// What links still have to hand back when the connection is gone takes no longer.
const LINKS_END_WITHIN: Duration = Duration::from_secs(2);
/// How often it is looked whether tokens have run out.
const TOKENS_LOOK_MS: u64 = 5_000;

pub(super) async fn run(stream: TcpStream, shared: Arc<Shared>, stopping: watch::Receiver<bool>) {
    // Turns are written whole already. A socket that refuses works all the same.
    drop(stream.set_nodelay(true));
    let (notes, inbox) = mpsc::unbounded_channel();
    let now = now(&shared);
    let engine = Connection::server(engine_config(&shared.config), now);
    let mut socket = Socket {
        stream,
        input: BytesMut::new(),
        links: Links::new(engine, shared.clone(), notes),
        inbox,
        stopping,
        end_by: None,
        shared,
        alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
        alarm_at: None,
    };
    if let Err(error) = socket.serve().await {
        tracing::debug!(%error, "AMQP connection lost");
    }
    socket.end().await;
}

fn engine_config(config: &Config) -> engine::Config {
    let properties = Map::default()
        .symbol("product", "mayfly".into())
        .symbol("version", Value::from(env!("CARGO_PKG_VERSION")));
    engine::Config {
        container_id: config.container_id.as_str().into(),
        hostname: None,
        properties: Some(properties),
        limits: config.limits.clone(),
    }
}

fn now(shared: &Shared) -> Millis {
    Millis(u64::try_from(shared.started.elapsed().as_millis()).unwrap_or(u64::MAX))
}

struct Socket {
    stream: TcpStream,
    /// Read and not understood yet.
    input: BytesMut,
    links: Links,
    inbox: mpsc::UnboundedReceiver<Note>,
    stopping: watch::Receiver<bool>,
    /// The node ends, and with it this, whatever the client does.
    end_by: Option<Millis>,
    shared: Arc<Shared>,
    alarm: Pin<Box<Sleep>>,
    /// What the alarm is set to; `None`: it has rung.
    alarm_at: Option<Millis>,
}

impl Socket {
    /// Turns until the connection is over.
    async fn serve(&mut self) -> io::Result<()> {
        loop {
            self.turn();
            self.write()?;
            if self.is_over() {
                return Ok(());
            }
            self.set_alarm();
            if !self.wait().await? {
                return Ok(());
            }
        }
    }

    /// Takes all that was read and noted, and gathers what it leads to.
    fn turn(&mut self) {
        let now = now(&self.shared);
        while let Ok(note) = self.inbox.try_recv() {
            self.links.on_note(note);
        }
        while self.links.wants_input() {
            let Some(event) = self.links.engine.poll(&mut self.input, now) else { break };
            self.links.on_event(event);
        }
        if self.links.engine.is_finished() {
            // The last event.
            while let Some(event) = self.links.engine.poll(&mut self.input, now) {
                self.links.on_event(event);
            }
        }
        self.links.finish_turn();
        self.links.engine.flush();
    }

    fn is_over(&mut self) -> bool {
        let is_late = self.end_by.is_some_and(|at| at <= now(&self.shared));
        is_late || self.links.engine.is_finished() && !self.links.engine.output().has_remaining()
    }

    /// Writes what the socket takes.
    fn write(&mut self) -> io::Result<()> {
        let output = self.links.engine.output();
        while output.has_remaining() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = output.chunks_vectored(&mut slices);
            match self.stream.try_write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for something to do; `false` if the client is gone.
    async fn wait(&mut self) -> io::Result<bool> {
        let wants_input = self.links.wants_input();
        let has_output = self.links.engine.output().has_remaining();
        let Socket { stream, links, inbox, stopping, alarm, .. } = self;
        tokio::select! {
            ready = stream.readable(), if wants_input => {
                ready?;
                return self.read();
            }
            ready = stream.writable(), if has_output => ready?,
            Some(()) = links.work.next(), if !links.work.is_empty() => {}
            Some(note) = inbox.recv() => links.on_note(note),
            () = alarm.as_mut(), if self.alarm_at.is_some() => self.ring(),
            _ = stopping.changed(), if self.end_by.is_none() => self.stop(),
        }
        Ok(true)
    }

    /// Reads what is there; `false` at the end of the stream.
    fn read(&mut self) -> io::Result<bool> {
        self.input.reserve(READ_BYTES);
        let read = self.stream.try_read_buf(&mut self.input);
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        match read {
            Ok(0) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Sets the alarm to the next deadline, unless it rings before anyway.
    fn set_alarm(&mut self) {
        let tokens = match self.shared.config.access {
            Access::Anyone => None,
            Access::Keys(_) => Some(Millis(now(&self.shared).0 + TOKENS_LOOK_MS)),
        };
        let all = [self.links.engine.deadline(), tokens, self.end_by];
        let deadline = all.into_iter().flatten().min();
        let Some(at) = deadline else { return };
        if self.alarm_at.is_none_or(|set| at < set) {
            self.alarm_at = Some(at);
            self.alarm.as_mut().reset(self.shared.started + Duration::from_millis(at.0));
        }
    }

    fn ring(&mut self) {
        self.alarm_at = None;
        self.links.engine.tick(now(&self.shared));
        self.links.detach_expired();
    }

    /// Tells the client to go elsewhere: every SDK connects anew by itself.
    fn stop(&mut self) {
        self.end_by = Some(Millis(now(&self.shared).0 + GOODBYE_MS));
        let why = "the node is shutting down";
        self.links.engine.close(Some(Error::new(condition::CONNECTION_FORCED, why)));
    }

    /// Lets the links hand back what was granted and never sent.
    async fn end(mut self) {
        self.links.drop_links(|_| true);
        let goodbye = async {
            drop(self.stream.shutdown().await);
            while self.links.work.next().await.is_some() {}
        };
        drop(timeout(LINKS_END_WITHIN, goodbye).await);
    }
}
