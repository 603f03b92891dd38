//! HTTP/2 as clients of the HTTP port speak it, and as nobody should.

use std::collections::BTreeMap;

use anyhow::Context;
use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use tokio::task::JoinHandle;
use tonic::codegen::http::Request;

use crate::wire::{Blocking, Wire};

/// A connection, whose requests run beside each other.
pub struct Http2Client {
    pub requests: SendRequest<Bytes>,
    /// Ends with the connection.
    pub connection: JoinHandle<Result<(), h2::Error>>,
}

#[derive(Debug)]
pub struct Http2Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Http2Client {
    pub async fn over(stream: impl Wire + 'static) -> anyhow::Result<Http2Client> {
        let (requests, connection): (_, Connection<_, Bytes>) =
            h2::client::handshake(Blocking(stream)).await?;
        Ok(Http2Client { requests, connection: tokio::spawn(connection) })
    }

    /// Sends a request, and does not wait for its answer. `request`: method and path.
    pub async fn send(
        &mut self,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<ResponseFuture> {
        let (method, path) = request.split_once(' ').context("a method and a path")?;
        let uri = format!("https://localhost{path}");
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.requests = self.requests.clone().ready().await?;
        let (answer, mut stream) =
            self.requests.send_request(request.body(())?, body.is_empty())?;
        if !body.is_empty() {
            stream.send_data(Bytes::copy_from_slice(body.as_bytes()), true)?;
        }
        Ok(answer)
    }

    pub async fn ask(
        &mut self,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<Http2Answer> {
        Http2Answer::of(self.send(request, headers, body).await?).await
    }
}

impl Http2Answer {
    pub async fn of(answer: ResponseFuture) -> anyhow::Result<Http2Answer> {
        let (head, mut stream) = answer.await?.into_parts();
        let mut body = Vec::new();
        while let Some(part) = stream.data().await {
            let part = part?;
            stream.flow_control().release_capacity(part.len())?;
            body.extend_from_slice(&part);
        }
        let header = |(name, value): (
            &tonic::codegen::http::HeaderName,
            &tonic::codegen::http::HeaderValue,
        )| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let headers = head.headers.iter().map(header).collect();
        Ok(Http2Answer { status: head.status.as_u16(), headers, body: String::from_utf8(body)? })
    }
}
