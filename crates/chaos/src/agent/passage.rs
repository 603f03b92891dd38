//! What an agent's node says to others goes this way.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use transport::ConnectRequest;

use crate::proxy::{Carrier, Condition, Flow, Links};

/// The agent's node, among the ends of flows; the others are counted from here.
const OWN: u64 = 1;
/// Connections at a time. A node has a few to each other node.
const CONNECTIONS_MAX: usize = 4096;
/// A node asks at once, and its peer's machine answers or does not.
const OPENED_WITHIN: Duration = Duration::from_secs(10);

/// A proxy on loopback. Dropped, it is closed.
pub(super) struct Passage {
    links: Links,
    ends: Arc<Ends>,
    address: String,
    _serving: JoinSet<()>,
}

/// The numbers of those whom the node has asked to reach, or a condition was set for, by `host:port`.
#[derive(Default)]
struct Ends(Mutex<BTreeMap<String, u64>>);

impl Ends {
    fn number(&self, address: &str) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(|poison| poison.into_inner());
        let next = OWN + 1 + known.len() as u64;
        *known.entry(address.to_owned()).or_insert(next)
    }
}

impl Passage {
    /// Needs a runtime.
    pub async fn open() -> io::Result<Passage> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?.to_string();
        let (links, ends) = (Links::default(), Arc::<Ends>::default());
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, links.carrier(), ends.clone()));
        Ok(Passage { links, ends, address, _serving: serving })
    }

    /// Where the node finds it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sets how one direction between the node and another is from now on.
    pub fn set(&self, address: &str, is_outward: bool, condition: Condition) {
        let other = self.ends.number(address);
        let flow: Flow = if is_outward { (OWN, other) } else { (other, OWN) };
        self.links.set(flow, condition);
    }

    /// All directions are as they should be.
    pub fn heal(&self) {
        self.links.heal();
    }
}

async fn serve(listener: TcpListener, carrier: Carrier, ends: Arc<Ends>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        // Fails where this process has no file left; the node asks again.
        if let Ok((near, _)) = listener.accept().await {
            let (carrier, ends) = (carrier.clone(), ends.clone());
            connections.spawn(async move {
                // What fails was told to the node.
                if let Ok(Ok((to, near, far))) = timeout(OPENED_WITHIN, open(near)).await {
                    carrier.carry((OWN, ends.number(&to)), near, far).await;
                }
                drop(place);
            });
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn open(near: TcpStream) -> io::Result<(String, TcpStream, TcpStream)> {
    let request = ConnectRequest::read(near).await?;
    let to = request.to.clone();
    let (near, far) = request.connect().await?;
    Ok((to, near, far))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn one_direction_to_one_node_is_cut_and_no_other() {
        let passage = Passage::open().await.expect("a port");
        let mut connected = Vec::new();
        for _ in 0..2 {
            let far = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let to = far.local_addr().expect("bound").to_string();
            let near = transport::dial(passage.address(), &to).await.expect("it is led there");
            let (far, _) = far.accept().await.expect("a connection");
            connected.push((to, near, far));
        }
        for (cut, is_outward) in [(0, true), (0, false), (1, true), (1, false)] {
            let to = connected[cut].0.clone();
            passage.set(&to, is_outward, Condition { cut: true, ..Condition::default() });
            for (index, (_, near, far)) in connected.iter_mut().enumerate() {
                for outward in [true, false] {
                    let (from, at) =
                        if outward { (&mut *near, &mut *far) } else { (&mut *far, &mut *near) };
                    from.write_all(b"x").await.expect("open");
                    let is_cut = index == cut && outward == is_outward;
                    let mut heard = [0];
                    let wait = Duration::from_millis(if is_cut { 60 } else { 5_000 });
                    let arrived = timeout(wait, at.read_exact(&mut heard)).await;
                    assert_eq!(arrived.is_err(), is_cut, "{index} {outward}");
                    if is_cut {
                        passage.heal();
                        at.read_exact(&mut heard).await.expect("it arrives then");
                        passage.set(
                            &to,
                            is_outward,
                            Condition { cut: true, ..Condition::default() },
                        );
                    }
                }
            }
            passage.heal();
        }
    }
}
