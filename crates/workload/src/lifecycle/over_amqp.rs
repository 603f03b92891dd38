//! The same lifecycle over AMQP, as a fast client of it would: transfers pipelined up to the window,
//! credit ahead of what was taken, verdicts and their answers in ranges.

mod consumer;
mod producer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use amqp_protocol::codec::{Attach, Role};
use client::Client;

use crate::{Link, Lost, Way};

pub(super) use consumer::consume;
pub(super) use producer::produce;

/// After a connection was lost, the next is tried this much later.
const PAUSE: Duration = Duration::from_millis(200);

/// Where AMQP is spoken, and as whom.
#[derive(Clone)]
pub(super) struct Fronts {
    client: Client,
    way: Way,
    /// By the node's own name, as it says in `open`.
    addresses: Arc<BTreeMap<String, String>>,
}

impl Fronts {
    /// Asks who is there.
    pub async fn find(client: &Client, addresses: &[String]) -> Result<Fronts, crate::Error> {
        let way = Way::of(client)?;
        let (mut found, mut why) = (BTreeMap::new(), None);
        for address in addresses {
            match greet(&way, address, client.secret().as_deref()).await {
                Ok(name) => drop(found.insert(name, address.clone())),
                Err(lost) => why = why.or(Some(format!("{address}: {lost}"))),
            }
        }
        if found.is_empty() {
            let why = why.unwrap_or_else(|| "no address was given".to_owned());
            return Err(crate::Error::Wrong(format!("AMQP is spoken nowhere: {why}")));
        }
        Ok(Fronts { client: client.clone(), way, addresses: Arc::new(found) })
    }

    /// Opens a link: at the node that leads the queue if it is among those found, which is where the
    /// native client goes as well, else at any.
    async fn open(&self, queue: &str, role: Role, index: u32) -> Result<Link, Lost> {
        let leader = self.client.leader(queue).await.map(|node| format!("mayfly-{node}"));
        let of_leader = leader.and_then(|name| self.addresses.get(&name));
        let any = || self.addresses.values().nth(index as usize % self.addresses.len());
        let address = of_leader.or_else(any).map_or("", String::as_str);
        let login = self.way.login(self.client.secret().as_deref());
        let name = format!("bench-{queue}");
        let attach = match role {
            Role::Sender => Link::to(&name, queue),
            // Verdicts are answered (SETTLE-4).
            Role::Receiver => Attach::receiver(&name, queue),
        };
        Link::attach(Link::connect(&self.way, address, login).await?, attach).await
    }
}

/// Connects, and tells the name by which the node greets.
async fn greet(way: &Way, address: &str, secret: Option<&str>) -> Result<String, Lost> {
    let client = Link::connect(way, address, way.login(secret)).await?;
    let name = client.server().container_id.to_string();
    client.close().await;
    Ok(name)
}
