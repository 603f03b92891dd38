//! One address for programs that know a single endpoint: each new connection goes to the next node.

use std::io;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Pause before connections are accepted again when this process has no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An address that leads to nodes. Dropped, it and its connections are closed.
pub struct Entrance {
    pub port: u16,
    _task: JoinSet<()>,
}

impl Entrance {
    /// Opens one on loopback that leads to these addresses in turn.
    ///
    /// # Errors
    /// No port is free.
    pub async fn open(addresses: Vec<String>) -> io::Result<Entrance> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let mut task = JoinSet::new();
        task.spawn(accept(listener, addresses));
        Ok(Entrance { port, _task: task })
    }
}

async fn accept(listener: TcpListener, addresses: Vec<String>) {
    let mut connections = JoinSet::new();
    for turn in 0.. {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let mut nodes = addresses.clone();
        nodes.rotate_left(turn % addresses.len().max(1));
        connections.spawn(lead(client, nodes));
        while connections.try_join_next().is_some() {}
    }
}

/// To the first that answers. If none does, the client sees its connection end and tries again.
async fn lead(mut client: TcpStream, nodes: Vec<String>) {
    // What the client and the node gather is not to be held up here.
    let _ = client.set_nodelay(true);
    for address in &nodes {
        if let Ok(Ok(mut node)) = timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
            let _ = node.set_nodelay(true);
            // Ends with either side; the client notices by itself.
            let _ = copy_bidirectional(&mut client, &mut node).await;
            return;
        }
    }
}
