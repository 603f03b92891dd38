//! Namespaces on real nodes: what is in one cannot be had from another, whichever way in is taken.

mod credits;
mod idle;
mod keys;
mod lifetime;
mod passages;
mod profiles;
mod restarted;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;
use client::v1::{CreateNamespaceRequest, Profile};
use client::{Client, ClientOptions};
use mayfly_tests::Cluster;

/// A client of the native API, of a namespace and with a key.
fn native(
    cluster: &Cluster,
    namespace: Option<&str>,
    secret: Option<&str>,
) -> anyhow::Result<Client> {
    let options = ClientOptions {
        namespace: namespace.map(str::to_owned),
        secret: secret.map(str::to_owned),
        give_up_after: Duration::from_secs(20),
        ..ClientOptions::default()
    };
    Ok(Client::with_options([cluster.addresses(1)[0]], options)?)
}

/// What a namespace of a tier is created by.
fn new(name: &str, profile: Profile) -> CreateNamespaceRequest {
    let profile = profile.into();
    CreateNamespaceRequest { name: name.to_owned(), profile, ..Default::default() }
}

/// One HTTP request to a host that the first node is called by: status and answer.
fn over_http(
    cluster: &Cluster,
    host: &str,
    request: &str,
    headers: &str,
    body: &str,
) -> anyhow::Result<(u16, String)> {
    over_http_of(cluster.addresses(1)[1], host, request, headers, body)
}

/// The same of the node at an address.
fn over_http_of(
    address: &str,
    host: &str,
    request: &str,
    headers: &str,
    body: &str,
) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let status = text.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, text))
}
