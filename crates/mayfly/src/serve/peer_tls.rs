//! TLS between nodes: each knows by its certificate whom it talks to.

use std::io;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use replication::{BoxSocket, Credential, Dialler};
use transport::{Shown, Tls, host_of};

use super::peer_way::PeerWay;

/// What a node meets its peers with.
#[derive(Clone, Debug)]
pub struct PeerTls {
    pub tls: Tls,
    /// Whose nodes the peers are.
    pub cluster: Arc<str>,
    way: PeerWay,
}

impl PeerTls {
    pub fn new(tls: Tls, cluster_id: u128, way: PeerWay) -> PeerTls {
        PeerTls { tls, cluster: format!("{cluster_id:032x}").into(), way }
    }

    async fn dial(self, node: u64, to: String) -> io::Result<BoxSocket> {
        let stream = self.way.dial(&to).await?;
        let (stream, shown) = self.tls.dial(stream, host_of(&to)).await?;
        shown.vouches_for(node, Some(&to), &self.cluster).map_err(|why| {
            let why = format!("{to} is not node {node}: {why}");
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        })?;
        Ok(Box::new(stream))
    }
}

impl Dialler for PeerTls {
    fn connect(&self, node: u64, to: String) -> BoxFuture<'static, io::Result<BoxSocket>> {
        self.clone().dial(node, to).boxed()
    }
}

/// What whoever dialled this node has shown.
#[derive(Debug)]
pub struct PeerCertificate {
    pub shown: Shown,
    pub cluster: Arc<str>,
}

impl Credential for PeerCertificate {
    fn vouches_for(&self, node: u64, address: Option<&str>) -> Result<(), String> {
        self.shown.vouches_for(node, address, &self.cluster)
    }
}
