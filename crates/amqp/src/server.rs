//! The AMQP port: sockets on one side, [`service::Broker`] on the other.
//!
//! One task a connection. It owns the engine; links that wait for the broker are futures of that
//! task, not tasks, and speak to it by notes. A turn takes all events and notes there are,
//! flushes once and writes what the socket takes.
//!
//! Invariant: nothing is settled before the log has decided. A verdict is written only from the
//! broker's answer to it, and a link stays attached while leadership moves.

mod access;
mod address;
mod failure;
mod verdict;

mod note;
mod opening;
mod receiving;
mod requests;
mod sending;
mod transacting;
mod via;

mod attaching;
mod conversing;
mod coordinator;
mod delivering;
mod links;
mod taking;

mod connection;

use std::sync::Arc;
use std::time::Duration;

use service::Broker;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Limits;
pub use access::{Access, Key};

/// Pause before connections are accepted again when the process has no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How AMQP is served.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who may do what. Default: anyone anything, as the emulator has it.
    pub access: Access,
    /// Of each connection.
    pub limits: Limits,
    /// Most connections at a time; more are closed as they come. Default 20,000.
    pub connections_max: usize,
    /// Name of this side in `open`, for people who look at traffic.
    pub container_id: String,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            access: Access::Anyone,
            limits: Limits::default(),
            connections_max: 20_000,
            container_id: "mayfly".to_owned(),
        }
    }
}

/// What all connections share.
struct Shared {
    config: Config,
    broker: Broker,
    /// The zero of the engines' time.
    started: Instant,
}

/// Serves until `stop` resolves, and then until every client was told and is gone.
pub async fn serve(
    listener: TcpListener,
    config: Config,
    broker: Broker,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let slots = Arc::new(Semaphore::new(config.connections_max));
    let shared = Arc::new(Shared { config, broker, started: Instant::now() });
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Ok(slot) = slots.clone().try_acquire_owned() else {
                        tracing::debug!(%peer, "refused: too many AMQP connections");
                        continue;
                    };
                    let run = connection::run(stream, shared.clone(), stopped.clone());
                    connections.spawn(async move {
                        run.await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an AMQP connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    stopping.send_replace(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}
