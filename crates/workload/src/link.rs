//! One AMQP connection with one link, driven by whoever owns it.

use std::io;
use std::time::Duration;

use amqp_client::{Client, Options};
use amqp_protocol::codec::{Attach, DeliveryState, Error, ReceiverSettleMode};
use amqp_protocol::engine::{DeliveryId, Event, LinkId, Mechanism, Outgoing};
use thiserror::Error as ThisError;

use crate::way::Way;

/// Every step until the link is attached takes no longer.
const STEP_WITHIN: Duration = Duration::from_secs(10);

/// Why a connection is of no use any more.
#[derive(Debug, ThisError)]
pub enum Lost {
    #[error("{0}")]
    Client(#[from] amqp_client::Error),
    /// There is no way to it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What the node said.
    #[error("{0}")]
    Ended(String),
}

/// A link on a connection of its own.
pub struct Link {
    client: Client,
    id: LinkId,
    attach: Attach,
}

impl Link {
    /// Connects to `host:port`, with its scheme or without.
    pub async fn connect(way: &Way, address: &str, login: Mechanism) -> Result<Client, Lost> {
        let options = Options {
            container_id: "mayfly-bench".to_owned(),
            hostname: Some(way.host(address)),
            login,
            answer_within: STEP_WITHIN,
            ..Options::default()
        };
        let stream = tokio::time::timeout(STEP_WITHIN, way.to(address));
        let stream = stream.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(Client::over(stream, options).await?)
    }

    /// Attaches over a connection that is there.
    pub async fn attach(mut client: Client, attach: Attach) -> Result<Link, Lost> {
        match client.attach(attach).await? {
            Ok((id, attach)) => Ok(Link { client, id, attach }),
            Err(refused) => Err(ended(Some(refused))),
        }
    }

    /// To send to `address`: outcomes are the receiver's first word and its last.
    pub fn to(name: &str, address: &str) -> Attach {
        Attach { rcv_settle_mode: ReceiverSettleMode::First, ..Attach::sender(name, address) }
    }

    /// What the node answered.
    pub fn answer(&self) -> &Attach {
        &self.attach
    }

    /// How many messages can be sent now.
    pub fn room(&mut self) -> u32 {
        self.client.engine().room(self.id)
    }

    /// Sends a message at the next turn. There is room for it.
    pub fn send(&mut self, outgoing: &Outgoing) -> Result<(), Lost> {
        let sent = self.client.engine().send(self.id, outgoing);
        sent.map(drop).map_err(|error| Lost::Ended(error.to_string()))
    }

    /// Lets so many messages without a verdict be under way.
    pub fn grant(&mut self, window: u32) -> Result<(), Lost> {
        let granted = self.client.engine().grant(self.id, window);
        granted.map_err(|gone| Lost::Ended(gone.to_string()))
    }

    /// Gives a verdict at the next turn, which the node answers (SETTLE-4).
    pub fn propose(&mut self, delivery: DeliveryId, verdict: DeliveryState) -> Result<(), Lost> {
        let proposed = self.client.engine().propose(delivery, verdict);
        proposed.map_err(|gone| Lost::Ended(gone.to_string()))
    }

    /// Gives a verdict at the next turn, and no answer comes.
    pub fn settle(&mut self, delivery: DeliveryId, verdict: DeliveryState) -> Result<(), Lost> {
        let settled = self.client.engine().settle(delivery, verdict);
        settled.map_err(|gone| Lost::Ended(gone.to_string()))
    }

    /// Writes what there is to write, and waits until something was read or all was written, a second
    /// at most. Cancelling it loses nothing.
    pub async fn turn(&mut self) -> Result<(), Lost> {
        Ok(self.client.turn().await?)
    }

    /// The next event of what was read, unless it is the end of the link.
    pub fn poll(&mut self) -> Result<Option<Event>, Lost> {
        match self.client.poll() {
            Some(
                Event::Closed { error, .. }
                | Event::Ended { error, .. }
                | Event::Detached { error, .. },
            ) => Err(ended(error)),
            event => Ok(event),
        }
    }

    /// Says goodbye; whether it is heard does not matter.
    pub async fn close(self) {
        self.client.close().await;
    }
}

fn ended(error: Option<Error>) -> Lost {
    Lost::Ended(
        error.map_or_else(|| "the node let go".to_owned(), |error| error.condition.to_string()),
    )
}
