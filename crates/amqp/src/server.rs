//! The AMQP port: sockets on one side, [`service::Broker`] on the other.
//!
//! One task a connection. It owns the engine; links that wait for the broker are futures of that
//! task, not tasks, and speak to it by notes. A turn takes all events and notes there are,
//! flushes once and writes what the socket takes.
//!
//! Reading order: addresses, rights and errors; what serves one link, one request or one transaction over
//! the broker; what a connection remembers of its links; the handlers of what the client asks, each of
//! which borrows no more of that than it may touch; the links together, and the connection.
//!
//! Invariant: nothing is settled before the log has decided. A verdict is written only from the
//! broker's answer to it, and a link stays attached while leadership moves.

mod access;
mod address;
mod failure;

mod dues;
mod held_session;
mod verdict;

mod backlog;
mod note;
mod operations;
mod selecting_receiver;
mod source;
mod submission;
mod supply;
mod unseen;

mod browser;
mod consumer;
mod producer;
mod relay;
mod temporary_queue;
mod transaction;
mod via;

mod fates;
mod idle;
mod link_table;
mod lobby;
mod tasks;
mod transaction_group;

mod attach;
mod coordinator;
mod incoming;
mod outgoing;
mod proof;
mod requests;

mod links;

mod connection;

use std::sync::Arc;
use std::time::Duration;

use amqp_protocol::Limits;
use audit::Trail;
use auth::Access;
use domain::Namespace;
use limits::{FrontEnd, Ledger, Origin, Slot};
use service::{Actor, Broker, KeyWatch};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use transport::{Arrival, Arrivals};

use connection::Rejection;
pub use idle::IdleLimits;
use lobby::Lobby;

/// So often it is looked whether the catalog has changed: links to what is gone end soon after (ENT-7).
const CATALOG_LOOK_EVERY: Duration = Duration::from_millis(500);
/// Connections over the maximum, or at a port that is not theirs, that are told so at a time; more are
/// closed without a word.
const SURPLUS_MAX: usize = 256;

/// How AMQP is served.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who may do what. Default: anyone anything, as the emulator has it.
    pub access: Access,
    /// What changes entities or their rules is told to it, and whose proofs are refused.
    pub trail: Trail,
    /// Of each connection.
    pub limits: Limits,
    /// What is held and not used.
    pub idle: IdleLimits,
    /// Where it is counted what clients take of the node.
    pub ledger: Ledger,
    /// Most connections at a time; more are told so and closed (QUOTA-13). Default
    /// 20,000.
    pub connections_max: usize,
    /// Of those, most whose clients have not proved who they are, where they have to; one more, and the
    /// one that has waited longest gives way (CONN-25). Default 1,000.
    pub unproved_connections_max: usize,
    /// Name of this side in `open`, for people who look at traffic.
    pub container_id: String,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            access: Access::Anyone,
            trail: Trail::off(),
            limits: Limits::default(),
            idle: IdleLimits::default(),
            ledger: Ledger::default(),
            connections_max: 20_000,
            unproved_connections_max: 1_000,
            container_id: "mayfly".to_owned(),
        }
    }
}

/// What all connections share that are in one namespace.
#[derive(Clone)]
struct Shared {
    config: Config,
    broker: Broker,
    /// How far the catalog is applied here: entities may have come or gone when it changes.
    catalog: Arc<watch::Sender<Option<u64>>>,
    lobby: Arc<Lobby>,
    /// Of keys that links were opened with.
    keys: KeyWatch,
    /// The zero of the engines' time.
    started: Instant,
}

impl Shared {
    /// For connections to another namespace: who may do what there, and what entities are called so there.
    fn within(&self, namespace: &Namespace) -> Shared {
        let access = self.keys.access(namespace);
        let config = Config { access, ..self.config.clone() };
        Shared { config, broker: self.broker.within(namespace.clone()), ..self.clone() }
    }

    /// Who may do what, as far as it is known here by now: the namespace may be another one of its name.
    fn access_now(&self) -> Access {
        self.keys.access(self.broker.namespace())
    }

    /// For what the client of a connection asks for.
    fn broker_for(&self, slot: Option<&Slot>) -> Broker {
        let Some(slot) = slot else { return self.broker.clone() };
        self.broker.acting_for(|| Actor {
            connection: slot.id().to_string(),
            key_name: slot.key_name().unwrap_or_default().to_owned(),
        })
    }
}

/// Serves until `stop` resolves, and then until every client was told and is gone. `keys`: of the access
/// that is configured.
pub async fn serve(
    mut arrivals: Arrivals,
    config: Config,
    broker: Broker,
    keys: KeyWatch,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    config.ledger.limit_connections(FrontEnd::Amqp, config.connections_max);
    let surplus = Arc::new(Semaphore::new(SURPLUS_MAX));
    let catalog = Arc::new(watch::Sender::new(None));
    let lobby = Arc::new(Lobby::new(config.unproved_connections_max));
    let started = Instant::now();
    let shared = Shared { config, broker, catalog, lobby, keys, started };
    let shared = Arc::new(shared.within(&Namespace::DEFAULT));
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut catalog_looks = tokio::time::interval(CATALOG_LOOK_EVERY);
    catalog_looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        let arrival = tokio::select! {
            () = &mut stop => break,
            _ = catalog_looks.tick() => {
                let applied = shared.broker.cluster().catalog_applied();
                let update = |known: &mut Option<u64>| std::mem::replace(known, applied) != applied;
                shared.catalog.send_if_modified(update);
                continue;
            }
            Some(arrival) = arrivals.recv() => arrival,
            Some(_) = connections.join_next() => continue,
        };
        let opened = match &arrival.misdirected {
            Some(why) => Err(Rejection::Misdirected(why.clone())),
            None => {
                let Arrival { peer, is_tls, is_web_socket, .. } = arrival;
                let origin = Origin { peer, is_tls, is_web_socket };
                let opened = shared.config.ledger.open(FrontEnd::Amqp, origin);
                opened.map_err(Rejection::Surplus)
            }
        };
        let told = match &opened {
            Ok(_) => None,
            Err(_) => match surplus.clone().try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => continue,
            },
        };
        let run = connection::run(arrival, opened, shared.clone(), stopped.clone());
        connections.spawn(async move {
            run.await;
            drop(told);
        });
    }
    drop(arrivals);
    stopping.send_replace(true);
    while connections.join_next().await.is_some() {}
}
