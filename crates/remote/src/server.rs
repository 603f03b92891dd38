//! How a process is served to its coordinator.

use std::convert::Infallible;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::transport::{Identity, Server, ServerTlsConfig};

/// A coordinator that is gone is noticed after two of these.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// A certificate and its key, each as PEM.
pub struct ServerTls {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

/// Serves until `stop`; calls that go on end with it.
///
/// # Errors
/// A certificate or key that is none, in one sentence.
pub async fn serve<S>(
    service: S,
    tls: Option<ServerTls>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> Result<(), String>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .tcp_nodelay(true);
    if let Some(ServerTls { certificate, key }) = tls {
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        let wrong = |error| format!("--tls-cert and --tls-key are no pair: {error:?}");
        server = server.tls_config(tls).map_err(wrong)?;
    }
    let serving = server.add_service(service).serve_with_incoming(TcpListenerStream::new(listener));
    tokio::select! {
        ended = serving => ended.map_err(|error| error.to_string()),
        () = stop => Ok(()),
    }
}
