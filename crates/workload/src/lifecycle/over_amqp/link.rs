//! One connection with one link, driven by whoever owns it.

use std::io;
use std::time::Duration;

use amqp_client::{Client, Options};
use amqp_protocol::codec::{Attach, DeliveryState, Error, ReceiverSettleMode, Role};
use amqp_protocol::engine::{DeliveryId, Event, LinkId, Outgoing};
use transport::host_of;

use super::Lost;
use crate::way::Way;

/// Every step until the link is attached takes no longer.
const STEP_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Link {
    client: Client,
    id: LinkId,
}

impl Link {
    /// Connects, and tells the name by which the node greets.
    pub async fn greet(way: &Way, address: &str, secret: Option<&str>) -> Result<String, Lost> {
        let client = connect(way, address, secret).await?;
        let name = client.server().container_id.to_string();
        client.close().await;
        Ok(name)
    }

    pub async fn open(
        way: &Way,
        address: &str,
        secret: Option<&str>,
        queue: &str,
        role: Role,
    ) -> Result<Link, Lost> {
        let mut client = connect(way, address, secret).await?;
        let name = format!("bench-{queue}");
        let attach = match role {
            Role::Sender => Attach {
                rcv_settle_mode: ReceiverSettleMode::First,
                ..Attach::sender(&name, queue)
            },
            // Verdicts are answered (SETTLE-4).
            Role::Receiver => Attach::receiver(&name, queue),
        };
        match client.attach(attach).await? {
            Ok((id, _)) => Ok(Link { client, id }),
            Err(refused) => Err(ended(Some(refused))),
        }
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

    /// Completes a delivery at the next turn.
    pub fn complete(&mut self, delivery: DeliveryId) -> Result<(), Lost> {
        let proposed = self.client.engine().propose(delivery, DeliveryState::ACCEPTED);
        proposed.map_err(|gone| Lost::Ended(gone.to_string()))
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

async fn connect(way: &Way, address: &str, secret: Option<&str>) -> Result<Client, Lost> {
    let host = host_of(address.split_once("://").map_or(address, |(_, address)| address));
    let options = Options {
        container_id: "mayfly-bench".to_owned(),
        hostname: Some(host.to_owned()),
        login: way.login(secret),
        answer_within: STEP_WITHIN,
        ..Options::default()
    };
    let stream = tokio::time::timeout(STEP_WITHIN, way.to(address));
    let stream = stream.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    Ok(Client::over(stream, options).await?)
}

fn ended(error: Option<Error>) -> Lost {
    Lost::Ended(error.map_or_else(|| "the node let go".to_owned(), |e| e.condition.to_string()))
}
