//! Channels for the layer above, and what it asks of peers.

use std::time::Duration;

use bytes::Bytes;
use replication::{ChannelError, Closed};
use tokio::time::timeout;

use super::harness::*;

#[tokio::test]
async fn messages_go_both_ways_in_order_until_one_side_closes() {
    let mut cluster = Cluster::with(2, Vec::new(), Default::default()).await;
    let mut near = cluster.node(1).replication.open_channel(2).await.expect("a channel");
    let accepted = cluster.nodes.get_mut(&2).expect("node 2").channels.recv();
    let (from, mut far) = soon("the other end", accepted).await.expect("a channel");
    assert_eq!(from, 1);
    for n in 0..100_u32 {
        near.send(Bytes::copy_from_slice(&n.to_be_bytes())).await.expect("sent");
    }
    for n in 0..100_u32 {
        let got = soon("a message", far.recv()).await.expect("a message");
        assert_eq!(got, n.to_be_bytes().as_slice());
        far.send(got).await.expect("sent back");
    }
    for n in 0..100_u32 {
        let got = soon("an echo", near.recv()).await.expect("an echo");
        assert_eq!(got, n.to_be_bytes().as_slice());
    }
    let large = Bytes::from(vec![1; 8 << 20]);
    near.send(large.clone()).await.expect("sent");
    assert_eq!(soon("a large message", far.recv()).await, Some(large));

    drop(far);
    assert_eq!(soon("the end", near.recv()).await, None);
    let (sender, receiver) = near.split();
    drop(receiver);
    soon("the sender to learn of it", sender.closed()).await;
    assert_eq!(sender.send(Bytes::new()).await, Err(Closed));
}

#[tokio::test]
async fn a_sender_waits_for_a_slow_reader() {
    let mut cluster = Cluster::with(2, Vec::new(), Default::default()).await;
    let near = cluster.node(1).replication.open_channel(2).await.expect("a channel");
    let accepted = cluster.nodes.get_mut(&2).expect("node 2").channels.recv();
    let (_, mut far) = soon("the other end", accepted).await.expect("a channel");
    let message = Bytes::from(vec![0; 1 << 20]);
    let mut sent = 0;
    while timeout(Duration::from_millis(500), near.send(message.clone())).await.is_ok() {
        sent += 1;
        assert!(sent < 200, "nobody reads, so somebody must wait");
    }
    for _ in 0..sent {
        assert!(soon("a message", far.recv()).await.is_some());
    }
    soon("room again", near.send(message)).await.expect("sent");
}

#[tokio::test]
async fn the_death_of_a_node_closes_its_channels() {
    let mut cluster = Cluster::with(2, Vec::new(), Default::default()).await;
    let mut near = cluster.node(1).replication.open_channel(2).await.expect("a channel");
    let accepted = cluster.nodes.get_mut(&2).expect("node 2").channels.recv();
    let (_, far) = soon("the other end", accepted).await.expect("a channel");
    cluster.kill(2);
    assert_eq!(soon("the end", near.recv()).await, None);
    drop(far);
    let opened = cluster.node(1).replication.open_channel(2).await.err();
    assert!(matches!(opened, Some(ChannelError::Unreachable { node: 2, .. })), "{opened:?}");
    let unknown = cluster.node(1).replication.open_channel(7).await.err();
    assert_eq!(unknown, Some(ChannelError::UnknownNode { node: 7 }));
}

#[tokio::test]
async fn a_peer_tells_what_its_clocks_show_and_what_it_is() {
    let mut cluster = Cluster::with(2, Vec::new(), Default::default()).await;
    let told = soon("clocks", cluster.node(1).replication.ask_clocks(2)).await;
    assert_eq!(told, Ok(CLOCKS));
    let told = soon("a description", cluster.node(1).replication.ask_description(2)).await;
    assert_eq!(told, Ok(Some(description())));
    cluster.kill(2);
    let told = soon("an error", cluster.node(1).replication.ask_clocks(2)).await;
    assert!(matches!(told, Err(ChannelError::Unreachable { node: 2, .. })), "{told:?}");
}
