//! Where a node speaks what: a client that came to the wrong port is told the right one.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::protocol::{Opening, Protocol};

/// Whether connections of a port are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    Never,
    Always,
    /// As the client begins.
    Either,
}

/// A port, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its setting, as `listen.amqp`, or several that name one address.
    pub key: String,
    pub address: SocketAddr,
    /// Each protocol once. What ALPN prefers comes first.
    pub takes: Vec<(Protocol, Encryption)>,
    /// Not for clients: nobody is sent there.
    pub is_internal: bool,
}

/// What becomes of a connection that begins in some way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// TLS first; then it is judged again.
    Handshake,
    Serve(Protocol),
    /// HTTP/2 where HTTP is taken and gRPC is not: served, but for gRPC.
    ServeHttp2,
    /// Told in its own protocol that it is wrong here.
    Refuse(Protocol),
    /// Told so as TLS says it.
    Alert,
    /// There is no language to tell it in.
    LetGo,
}

impl Port {
    /// What becomes of a connection by its beginning, within TLS or not.
    pub(crate) fn judge(&self, opening: Opening, is_tls: bool) -> Verdict {
        match opening {
            Opening::Tls if is_tls || !self.makes_handshakes() => Verdict::Alert,
            Opening::Tls => Verdict::Handshake,
            Opening::Spoken(protocol) if self.accepts(protocol, is_tls) => Verdict::Serve(protocol),
            Opening::Spoken(Protocol::Http2) if is_tls && self.accepts(Protocol::Http1, true) => {
                Verdict::ServeHttp2
            }
            Opening::Spoken(protocol) => Verdict::Refuse(protocol),
            Opening::OtherAmqp => Verdict::Refuse(Protocol::Amqp),
            Opening::Unknown => Verdict::LetGo,
        }
    }

    pub(crate) fn makes_handshakes(&self) -> bool {
        self.takes.iter().any(|(_, encryption)| *encryption != Encryption::Never)
    }

    /// What it takes, however it is encrypted.
    pub(crate) fn protocols(&self) -> impl Iterator<Item = Protocol> {
        self.takes.iter().map(|(protocol, _)| *protocol)
    }

    /// By ALPN's names, what it prefers first. Where both kinds of HTTP/2 are taken, whoever can speak
    /// HTTP/1.1 as well means no gRPC.
    pub(crate) fn preferred(&self) -> Vec<Protocol> {
        let mut preferred: Vec<Protocol> = self.protocols().collect();
        if self.accepts(Protocol::Http1, true) && !self.accepts(Protocol::Http2, true) {
            preferred.insert(0, Protocol::Http2);
        }
        preferred
    }

    fn accepts(&self, protocol: Protocol, is_tls: bool) -> bool {
        let encrypted = self.takes.iter().find(|(taken, _)| *taken == protocol);
        encrypted.is_some_and(|(_, encryption)| match encryption {
            Encryption::Never => !is_tls,
            Encryption::Always => is_tls,
            Encryption::Either => true,
        })
    }

    /// As in "port 5671 (listen.amqps) takes AMQP over TLS".
    fn described(&self) -> String {
        let first = self.takes.first().map(|(_, encryption)| *encryption);
        let is_alike = self.takes.iter().all(|(_, encryption)| Some(*encryption) == first);
        let each = self.takes.iter().map(|(protocol, encryption)| match is_alike {
            true => protocol.name().to_owned(),
            false => format!("{}{}", protocol.name(), encryption.described()),
        });
        let names = each.collect::<Vec<_>>().join(", ");
        let all = first.filter(|_| is_alike).map_or("", Encryption::described);
        let whose = if self.is_internal { " of other nodes" } else { "" };
        format!("port {} ({}) takes {names}{whose}{all}", self.address.port(), self.key)
    }
}

impl Encryption {
    fn described(self) -> &'static str {
        match self {
            Encryption::Never => " without TLS",
            Encryption::Always => " over TLS",
            Encryption::Either => "",
        }
    }
}

/// One sentence for whoever came to a port with something else: what the port takes, and which port
/// takes that.
pub(crate) fn directions(ports: &[Port], at: &Port, opening: Opening, is_tls: bool) -> String {
    let mut told = at.described();
    let protocol = match opening {
        Opening::Spoken(protocol) => protocol,
        Opening::OtherAmqp => {
            told.push_str(", and AMQP in version 1.0 only");
            if at.accepts(Protocol::Amqp, is_tls) {
                return told;
            }
            Protocol::Amqp
        }
        Opening::Tls | Opening::Unknown => return told,
    };
    let with = |is_tls| if is_tls { " over TLS" } else { " without TLS" };
    let others: Vec<&Port> = ports
        .iter()
        .filter(|port| !port.is_internal && port.key != at.key)
        .filter(|port| port.protocols().any(|taken| taken == protocol))
        .collect();
    let list = |ports: &[&Port]| {
        let named = ports.iter().map(|port| format!("{} ({})", port.address.port(), port.key));
        named.collect::<Vec<_>>().join(" or ")
    };
    // Nothing fails to be written into memory.
    let name = protocol.name();
    let matching: Vec<&Port> =
        others.iter().copied().filter(|port| port.accepts(protocol, is_tls)).collect();
    let _ = match (&matching[..], &others[..]) {
        ([], []) => match at.protocols().any(|taken| taken == protocol) {
            true => write!(told, ", not{}", with(is_tls)),
            false => write!(
                told,
                "; {name} is on no port of this node, {} would be one",
                key_of(protocol)
            ),
        },
        ([], others) => {
            write!(told, "; {name} is on port {}, but not{}", list(others), with(is_tls))
        }
        (ports, _) => write!(told, "; {name}{} is on port {}", with(is_tls), list(ports)),
    };
    told
}

/// The setting that gives a protocol a port of its own.
fn key_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Amqp => "listen.amqp",
        Protocol::Http1 => "listen.http",
        Protocol::Http2 => "listen.grpc",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(key: &str, number: u16, takes: &[(Protocol, Encryption)]) -> Port {
        let address = SocketAddr::from(([127, 0, 0, 1], number));
        let is_internal = key == "listen.peer";
        Port { key: key.to_owned(), address, takes: takes.to_vec(), is_internal }
    }

    /// The ports of a node, as it has them with a certificate.
    fn ports() -> [Port; 7] {
        use Encryption::{Always, Either, Never};
        use Protocol::{Amqp, Http1, Http2};
        [
            port("listen.amqp", 5672, &[(Amqp, Never)]),
            port("listen.amqps", 5671, &[(Amqp, Always)]),
            port("listen.http", 5300, &[(Http1, Either)]),
            port("listen.websocket and listen.amqps", 443, &[(Http1, Either), (Amqp, Always)]),
            port("listen.grpc", 5310, &[(Http2, Either)]),
            port("listen.any", 5700, &[(Http1, Either), (Http2, Either), (Amqp, Either)]),
            port("listen.peer", 5320, &[(Http2, Never)]),
        ]
    }

    /// First bytes (rows) by ports (columns, as above), and then the same bytes inside of TLS. No port
    /// guesses wrong: it serves what it takes, and tells everything else so in its own words.
    #[test]
    fn conn_23_conn_24_what_each_port_does_with_each_beginning() {
        use Verdict::{Alert, Handshake, LetGo, ServeHttp2};
        const fn serve(protocol: Protocol) -> Verdict {
            Verdict::Serve(protocol)
        }
        const fn no(protocol: Protocol) -> Verdict {
            Verdict::Refuse(protocol)
        }
        use Protocol::{Amqp, Http1, Http2};
        let (a, h, g) = (serve(Amqp), serve(Http1), serve(Http2));
        let (no_a, no_h, no_g) = (no(Amqp), no(Http1), no(Http2));
        for (bytes, plain, within) in [
            (
                &b"AMQP\x03\x01\x00\x00"[..],
                [a, no_a, no_a, no_a, no_a, a, no_a],
                [no_a, a, no_a, a, no_a, a, no_a],
            ),
            (
                b"AMQP\x00\x01\x00\x00",
                [a, no_a, no_a, no_a, no_a, a, no_a],
                [no_a, a, no_a, a, no_a, a, no_a],
            ),
            (b"AMQP\x00\x00\x09\x01", [no_a; 7], [no_a; 7]),
            (
                b"GET / HTTP/1.1\r\n",
                [no_h, no_h, h, h, no_h, h, no_h],
                [no_h, no_h, h, h, no_h, h, no_h],
            ),
            (
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                [no_g, no_g, no_g, no_g, g, g, g],
                [no_g, no_g, ServeHttp2, ServeHttp2, g, g, no_g],
            ),
            (
                b"\x16\x03\x01\x02\x00",
                [Alert, Handshake, Handshake, Handshake, Handshake, Handshake, Alert],
                [Alert; 7],
            ),
            (b"SSH-2.0-OpenSSH_9.6\r\n", [LetGo; 7], [LetGo; 7]),
            (b"\x10\x10\x00\x04MQTT", [LetGo; 7], [LetGo; 7]),
        ] {
            let opening = Opening::of(bytes).expect("whole");
            for (at, port) in ports().iter().enumerate() {
                let told = (port.judge(opening, false), port.judge(opening, true));
                assert_eq!(
                    told,
                    (plain[at], within[at]),
                    "{} at {}",
                    bytes.escape_ascii(),
                    port.key
                );
            }
        }
    }

    #[test]
    fn conn_24_who_is_wrong_is_told_where_to_go() {
        let all = ports();
        let only = |keys: &[&str]| -> Vec<Port> {
            all.iter().filter(|port| keys.contains(&port.key.as_str())).cloned().collect()
        };
        let few = only(&["listen.amqps", "listen.http", "listen.peer"]);
        let mixed = "listen.websocket and listen.amqps";
        let lone = only(&["listen.amqps"]);
        let spoken = Opening::Spoken;
        for (ports, at, opening, is_tls, told) in [
            (
                &all[..],
                "listen.http",
                spoken(Protocol::Amqp),
                false,
                "port 5300 (listen.http) takes HTTP; AMQP without TLS is on port 5672 (listen.amqp) \
                 or 5700 (listen.any)",
            ),
            (
                &all,
                "listen.amqp",
                spoken(Protocol::Http1),
                false,
                "port 5672 (listen.amqp) takes AMQP without TLS; HTTP without TLS is on port 5300 \
                 (listen.http) or 443 (listen.websocket and listen.amqps) or 5700 (listen.any)",
            ),
            (
                &all,
                "listen.peer",
                spoken(Protocol::Http1),
                false,
                "port 5320 (listen.peer) takes gRPC (HTTP/2) of other nodes without TLS; HTTP without \
                 TLS is on port 5300 (listen.http) or 443 (listen.websocket and listen.amqps) or 5700 \
                 (listen.any)",
            ),
            (
                &all,
                mixed,
                spoken(Protocol::Amqp),
                false,
                "port 443 (listen.websocket and listen.amqps) takes HTTP, AMQP over TLS; AMQP without \
                 TLS is on port 5672 (listen.amqp) or 5700 (listen.any)",
            ),
            (
                &few,
                "listen.http",
                spoken(Protocol::Amqp),
                false,
                "port 5300 (listen.http) takes HTTP; AMQP is on port 5671 (listen.amqps), but not \
                 without TLS",
            ),
            (
                &few,
                "listen.http",
                spoken(Protocol::Http2),
                true,
                "port 5300 (listen.http) takes HTTP; gRPC (HTTP/2) is on no port of this node, \
                 listen.grpc would be one",
            ),
            (
                &lone,
                "listen.amqps",
                spoken(Protocol::Amqp),
                false,
                "port 5671 (listen.amqps) takes AMQP over TLS, not without TLS",
            ),
            (
                &all,
                "listen.amqp",
                Opening::OtherAmqp,
                false,
                "port 5672 (listen.amqp) takes AMQP without TLS, and AMQP in version 1.0 only",
            ),
            (
                &all,
                "listen.amqp",
                Opening::Tls,
                false,
                "port 5672 (listen.amqp) takes AMQP without TLS",
            ),
        ] {
            let port = ports.iter().find(|port| port.key == at).expect("a port");
            assert_eq!(directions(ports, port, opening, is_tls), told);
        }
    }
}
