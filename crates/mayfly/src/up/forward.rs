//! Addresses for clients that know a single endpoint, whatever they speak: each new connection goes to a
//! node that takes it, in turn.

use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::member::Member;

/// On loopback a node answers at once or not at all; one that is stopped keeps its port open.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Pause before connections are accepted again when this process has no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Forwards for ever.
pub async fn run(listeners: Vec<TcpListener>, members: Vec<Member>) {
    let mut ports = JoinSet::new();
    for listener in listeners {
        ports.spawn(accept(listener, members.clone()));
    }
    while ports.join_next().await.is_some() {}
}

async fn accept(listener: TcpListener, members: Vec<Member>) {
    for turn in 0.. {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let mut nodes = members.clone();
        nodes.rotate_left(turn % members.len().max(1));
        tokio::spawn(forward(client, nodes));
    }
}

/// To the first that answers. If none does, the client sees its connection end and tries again.
async fn forward(mut client: TcpStream, nodes: Vec<Member>) {
    // What the client and the node gather is not to be held up here.
    let _ = client.set_nodelay(true);
    for node in nodes.iter().filter(|node| node.pid().is_some()) {
        let Some(address) = &node.addresses().amqp else { continue };
        if let Ok(Ok(mut stream)) = timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
            let _ = stream.set_nodelay(true);
            // Ends with either side; the client notices by itself.
            let _ = copy_bidirectional(&mut client, &mut stream).await;
            return;
        }
    }
}
