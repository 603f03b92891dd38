//! Calls a client would not make: bare gRPC, every header and number in the test's hand.

use client::v1;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// One connection to one port, opened when first used.
#[derive(Clone)]
pub struct Raw(Grpc<Channel>);

impl Raw {
    pub fn to(address: &str) -> anyhow::Result<Raw> {
        Ok(Raw(Grpc::new(Endpoint::from_shared(format!("http://{address}"))?.connect_lazy())))
    }

    /// `mayfly.v1.Messaging/Send`.
    pub async fn send(&mut self, request: v1::SendRequest) -> Result<v1::SendResponse, Status> {
        self.ready().await?;
        let codec = ProstCodec::<v1::SendRequest, v1::SendResponse>::default();
        let path = PathAndQuery::from_static("/mayfly.v1.Messaging/Send");
        Ok(self.0.unary(Request::new(request), path, codec).await?.into_inner())
    }

    /// Asks on a peer port for the time, with these headers.
    pub async fn clocks(&mut self, headers: &[(&'static str, &str)]) -> Result<(), Status> {
        self.ready().await?;
        let mut request = Request::new(());
        for (key, value) in headers {
            let value = MetadataValue::try_from(*value)
                .map_err(|_| Status::invalid_argument("no header can carry this"))?;
            request.metadata_mut().insert(*key, value);
        }
        let path = PathAndQuery::from_static("/mayfly.peer.v1.Peer/Clocks");
        self.0.unary(request, path, ProstCodec::<(), ()>::default()).await?;
        Ok(())
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.0.ready().await.map_err(|error| Status::unavailable(error.to_string()))
    }
}
