//! How Azure's tools are answered.

use audit::Trail;
use auth::Access;
use uuid::Uuid;

/// `[azure]`, and what of the node it takes.
#[derive(Clone)]
pub struct Config {
    /// Of the default namespace and the cluster's operators.
    pub access: Access,
    pub trail: Trail,
    /// The subscription that all is in, and the tenant; `None`: by the cluster's id.
    pub subscription: Option<Uuid>,
    pub tenant: Option<Uuid>,
    pub messaging: Messaging,
}

/// Where clients that have a connection string send and receive.
#[derive(Clone, Debug, Default)]
pub struct Messaging {
    /// Ports that take all that clients speak.
    pub any: Vec<u16>,
    /// Of AMQP over TLS.
    pub amqps: Option<u16>,
}

/// Where SDKs look for AMQP over TLS by themselves.
const AMQPS_PORT: u16 = 5671;

impl Messaging {
    /// The host for a connection string, and its port where that is another than clients know. `asked`: as the client has
    /// reached this node.
    pub(crate) fn endpoint(&self, asked: &str, namespace_host: &str) -> String {
        let asked_port = asked.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let port = match asked_port.filter(|port| self.any.contains(port)) {
            Some(port) => Some(port),
            None => self.amqps.filter(|port| *port != AMQPS_PORT),
        };
        match port {
            Some(port) => format!("{namespace_host}:{port}"),
            None => namespace_host.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_names_the_port_that_takes_messages() {
        let with = |any: &[u16], amqps| Messaging { any: any.to_vec(), amqps };
        for (messaging, asked, endpoint) in [
            (with(&[5300], Some(5671)), "h:5300", "h:5300"),
            (with(&[], Some(5671)), "h:5300", "h"),
            (with(&[], Some(6671)), "h:5300", "h:6671"),
            (with(&[], None), "h", "h"),
            (with(&[443], Some(5671)), "h", "h"),
            (with(&[443], Some(5671)), "[::1]:443", "h:443"),
        ] {
            assert_eq!(messaging.endpoint(asked, "h"), endpoint, "{messaging:?} {asked}");
        }
    }
}
