//! A wire that can be cut: a proxy between a client and one node, which lets so many bytes through
//! in one direction and then does the connection harm.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

const CHUNK_BYTES: usize = 16 * 1024;

/// The direction whose bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    Node,
    Client,
}

/// What happens once the bytes are through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Both directions end, each side seeing an end of the stream.
    Cut,
    /// Both sides see a reset.
    Reset,
    /// This direction carries nothing any more, the other goes on: nobody is told.
    Swallow,
}

/// Harm to the connection after so many bytes in one direction, counted over all connections since
/// the plan was made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub toward: Toward,
    pub bytes: u64,
    pub harm: Harm,
}

#[derive(Default)]
struct State {
    plan: Option<Plan>,
    /// Bytes let through since the plan, by direction: to the node, to the client.
    passed: [u64; 2],
}

/// What a connection is to do with bytes it has read.
enum Verdict {
    Pass,
    /// Pass this many, then do harm.
    Harm(usize, Harm),
}

impl State {
    fn judge(&mut self, toward: Toward, count: usize) -> Verdict {
        let passed = &mut self.passed[toward as usize];
        let before = *passed;
        *passed += count as u64;
        match self.plan {
            Some(plan) if plan.toward == toward && *passed >= plan.bytes => {
                // Once only: the next connection is left in peace.
                self.plan = None;
                Verdict::Harm(plan.bytes.saturating_sub(before) as usize, plan.harm)
            }
            _ => Verdict::Pass,
        }
    }
}

/// A proxy to one address, until it is dropped.
pub struct Proxy {
    address: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a port of its own and passes everything on.
    pub async fn to(node: &str) -> anyhow::Result<Proxy> {
        Proxy::between("127.0.0.1:0", node).await
    }

    /// Listens there and passes everything on.
    pub async fn between(listen: &str, node: &str) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?.to_string();
        let state = Arc::<Mutex<State>>::default();
        let task = tokio::spawn(accept(listener, node.to_owned(), state.clone()));
        Ok(Proxy { address, state, task })
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Counts from here on, and does harm once; `None` withdraws what was planned.
    pub fn plan(&self, plan: Option<Plan>) {
        *lock(&self.state) = State { plan, passed: [0; 2] };
    }

    /// Whether harm is still to come.
    pub fn is_armed(&self) -> bool {
        lock(&self.state).plan.is_some()
    }

    /// Bytes let through since the last plan was made.
    pub fn passed(&self, toward: Toward) -> u64 {
        lock(&self.state).passed[toward as usize]
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort(); // And with it all connections, which are its children.
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().expect("no task panics while it holds the state")
}

async fn accept(listener: TcpListener, node: String, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(connect(client, node.clone(), state.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, until it ends or is ended.
async fn connect(client: TcpStream, node: String, state: Arc<Mutex<State>>) {
    // A node that is down: the client sees its connection end.
    let Ok(node) = TcpStream::connect(node).await else { return };
    if client.set_nodelay(true).and(node.set_nodelay(true)).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_node, to_node) = node.into_split();
    let mut requests = Pipe { from: from_client, to: to_node, toward: Toward::Node };
    let mut answers = Pipe { from: from_node, to: to_client, toward: Toward::Client };
    let harm = tokio::select! {
        harm = requests.carry(&state) => harm,
        harm = answers.carry(&state) => harm,
    };
    if harm == Harm::Reset {
        // What is unsent is thrown away, and the other side gets a reset.
        for socket in [requests.from.as_ref(), answers.from.as_ref()] {
            let _ = socket.set_zero_linger(); // It may be gone already.
        }
    }
}

struct Pipe {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    toward: Toward,
}

impl Pipe {
    /// Passes on what comes, until an end of the connection is due.
    async fn carry(&mut self, state: &Mutex<State>) -> Harm {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let Ok(count @ 1..) = self.from.read(&mut chunk).await else { return Harm::Cut };
            let verdict = lock(state).judge(self.toward, count);
            let (pass, harm) = match verdict {
                Verdict::Pass => (count, None),
                Verdict::Harm(pass, harm) => (pass, Some(harm)),
            };
            if self.to.write_all(&chunk[..pass]).await.is_err() {
                return Harm::Cut;
            }
            match harm {
                None => (),
                Some(Harm::Swallow) => {
                    // Read on, or the other side would notice that nobody does.
                    while let Ok(1..) = self.from.read(&mut chunk).await {}
                    return Harm::Cut;
                }
                Some(Harm::Cut) => {
                    let _ = self.to.shutdown().await; // Lets what was passed arrive.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    return Harm::Cut;
                }
                Some(Harm::Reset) => return Harm::Reset,
            }
        }
    }
}
