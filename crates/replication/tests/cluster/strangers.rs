//! Who does not belong here disturbs nobody.

use std::time::Duration;

use replication::{ChannelError, Proof};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::*;

#[tokio::test]
async fn garbage_on_the_peer_port_disturbs_nobody() {
    let cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    let mut idle = Vec::new();
    for address in cluster.addresses.values() {
        for garbage in [
            &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..],
            &[0xff; 4096],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"",
        ] {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(garbage).await.expect("written");
            let mut answer = Vec::new();
            let read = stream.read_to_end(&mut answer);
            let _ = tokio::time::timeout(Duration::from_millis(100), read).await;
            idle.push(stream);
        }
    }
    for number in 1..=20 {
        cluster.send(GROUP, number, 1000).await;
    }
    for node in 1..=3 {
        cluster.same_rows(node).await;
    }
}

#[tokio::test]
async fn a_node_of_another_cluster_or_without_the_secret_is_refused() {
    for (cluster_id, secret, word) in [
        ("other", Some("secret"), "cluster id"),
        ("test", None, "secret"),
        ("test", Some("guess"), "secret"),
    ] {
        let mut cluster = Cluster::cold(2, vec![GROUP], Default::default());
        let mut right = cluster.config(1);
        right.proof = Proof::Secret("secret".to_owned());
        let mut wrong = cluster.config(2);
        wrong.cluster_id = cluster_id.to_owned();
        wrong.proof = secret.map_or(Proof::Nothing, |secret| Proof::Secret(secret.to_owned()));
        cluster.start_node_with(right).await;
        cluster.start_node_with(wrong).await;
        let refused = cluster.node(2).replication.open_channel(1).await.err();
        let Some(ChannelError::Refused { node: 1, reason }) = &refused else {
            panic!("not refused: {refused:?}");
        };
        assert!(reason.contains(word), "{reason}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(cluster.node(1).replication.leader(GROUP), None, "no votes from strangers");
    }
}
