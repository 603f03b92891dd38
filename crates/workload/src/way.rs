//! Ways to nodes beside the native client's own, encrypted as that is.

use std::io;

use amqp_protocol::engine::Mechanism;
use client::{Client, ClientOptions, Trust};
use tokio::net::TcpStream;
use transport::{ClientTls, Stream, host_of};

use crate::Error;

/// The rule whose key the cluster's secret is.
const ROOT: &str = "RootManageSharedAccessKey";

/// How addresses are reached.
#[derive(Clone)]
pub struct Way {
    tls: Option<ClientTls>,
    /// A certificate is shown to whoever asks for one.
    is_certified: bool,
    /// What entities are in, if not the default one.
    namespace: Option<String>,
}

impl Way {
    /// The one that a client of the native API goes.
    pub fn of(client: &Client) -> Result<Way, Error> {
        Way::with(client.options())
    }

    /// The one that such a client would go.
    ///
    /// # Errors
    /// Certificates that are none.
    pub fn with(options: &ClientOptions) -> Result<Way, Error> {
        let namespace = options.namespace.clone();
        let Some(trust) = &options.tls else {
            return Ok(Way { tls: None, is_certified: false, namespace });
        };
        let authorities = match trust {
            Trust::System => None,
            Trust::Authorities(pem) => Some(pem.as_slice()),
        };
        let own = options.certificate.as_ref();
        let own = own.map(|own| (own.certificate.as_slice(), own.key.as_slice()));
        let tls = ClientTls::new(authorities, own).map_err(Error::Wrong)?;
        Ok(Way { tls: Some(tls), is_certified: own.is_some(), namespace })
    }

    /// The host that a client says over AMQP, by which the namespace is chosen (NS-5). `address`: as for [`Way::to`].
    pub fn host(&self, address: &str) -> String {
        let host = host_of(address.split_once("://").map_or(address, |(_, address)| address));
        match &self.namespace {
            Some(namespace) => format!("{namespace}.{host}"),
            None => host.to_owned(),
        }
    }

    /// How to log in over AMQP: with the secret, or without one by the certificate.
    pub fn login(&self, secret: Option<&str>) -> Mechanism {
        match secret {
            Some(secret) => Mechanism::plain(ROOT, secret),
            None if self.is_certified => Mechanism::External,
            None => Mechanism::Anonymous,
        }
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
