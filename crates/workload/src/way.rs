//! Ways to nodes beside the native client's own, encrypted as that is.

use std::io;

use client::{Client, Trust};
use tokio::net::TcpStream;
use transport::{ClientTls, Stream, host_of};

use crate::Error;

/// How addresses are reached.
#[derive(Clone)]
pub(crate) struct Way {
    tls: Option<ClientTls>,
}

impl Way {
    /// The one that a client of the native API goes.
    pub fn of(client: &Client) -> Result<Way, Error> {
        let options = client.options();
        let Some(trust) = &options.tls else { return Ok(Way { tls: None }) };
        let authorities = match trust {
            Trust::System => None,
            Trust::Authorities(pem) => Some(pem.as_slice()),
        };
        let own = options.certificate.as_ref();
        let own = own.map(|own| (own.certificate.as_slice(), own.key.as_slice()));
        let tls = ClientTls::new(authorities, own).map_err(Error::Wrong)?;
        Ok(Way { tls: Some(tls) })
    }

    /// To `host:port`. With `http://` or `amqp://` before it nothing is encrypted, with `https://` or
    /// `amqps://` all is; with neither, as the client does it.
    pub async fn to(&self, address: &str) -> io::Result<Stream> {
        let (scheme, address) = address.split_once("://").unwrap_or(("", address));
        let tls = match (scheme, &self.tls) {
            ("http" | "amqp", _) | ("", None) => None,
            (_, Some(tls)) => Some(tls),
            (_, None) => {
                let told = format!(
                    "{scheme}://{address} takes TLS; give --tls-ca, or connect by https://"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, told));
            }
        };
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        match tls {
            None => Ok(Stream::Plain(stream)),
            Some(tls) => tls.connect(stream, host_of(address)).await,
        }
    }
}
