//! How connections to other nodes are opened, before anything is said over them.

use std::io;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use replication::{BoxSocket, Dialler};
use tokio::net::TcpStream;

/// Straight, or through a proxy.
#[derive(Clone, Debug, Default)]
pub struct PeerWay {
    /// SOCKS5, of an experiment.
    pub proxy: Option<Arc<str>>,
}

impl PeerWay {
    /// # Errors
    /// As of a connection: one that the other end refused says so, through a proxy as well.
    pub async fn dial(&self, to: &str) -> io::Result<TcpStream> {
        let stream = match &self.proxy {
            None => TcpStream::connect(to).await?,
            Some(proxy) => transport::dial(proxy, to).await?,
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// In plain text.
impl Dialler for PeerWay {
    fn connect(&self, _: u64, to: String) -> BoxFuture<'static, io::Result<BoxSocket>> {
        let way = self.clone();
        async move { way.dial(&to).await.map(|stream| Box::new(stream) as BoxSocket) }.boxed()
    }
}
