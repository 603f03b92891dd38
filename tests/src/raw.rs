//! Calls a client would not make: bare gRPC, every header and number in the test's hand.

use std::net::IpAddr;

use client::v1;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// One connection to one port, opened when first used.
#[derive(Clone)]
pub struct Raw {
    grpc: Grpc<Channel>,
    authorization: Option<String>,
}

impl Raw {
    pub fn to(address: &str) -> anyhow::Result<Raw> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        Ok(Raw { grpc: Grpc::new(endpoint.connect_lazy()), authorization: None })
    }

    /// The same from another address of this machine, with a proof.
    pub fn from(own: IpAddr, address: &str, authorization: String) -> anyhow::Result<Raw> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.local_address(Some(own));
        let grpc = Grpc::new(endpoint.connect_lazy());
        Ok(Raw { grpc, authorization: Some(authorization) })
    }

    /// `mayfly.v1.Messaging/Send`.
    pub async fn send(&mut self, request: v1::SendRequest) -> Result<v1::SendResponse, Status> {
        self.ready().await?;
        let codec = ProstCodec::<v1::SendRequest, v1::SendResponse>::default();
        let path = PathAndQuery::from_static("/mayfly.v1.Messaging/Send");
        let mut request = Request::new(request);
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", value(authorization)?);
        }
        Ok(self.grpc.unary(request, path, codec).await?.into_inner())
    }

    /// Asks on a peer port for the time, with these headers.
    pub async fn clocks(&mut self, headers: &[(&'static str, &str)]) -> Result<(), Status> {
        self.ready().await?;
        let mut request = Request::new(());
        for (key, value) in headers {
            request.metadata_mut().insert(*key, self::value(value)?);
        }
        let path = PathAndQuery::from_static("/mayfly.peer.v1.Peer/Clocks");
        self.grpc.unary(request, path, ProstCodec::<(), ()>::default()).await?;
        Ok(())
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))
    }
}

fn value(text: &str) -> Result<MetadataValue<Ascii>, Status> {
    let value = MetadataValue::try_from(text);
    value.map_err(|_| Status::invalid_argument("no header can carry this"))
}
