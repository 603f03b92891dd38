//! SOCKS5 (RFC 1928), of which CONNECT without authentication: how a node reaches its peers through the agent of a fault
//! experiment, which then sees what they say to each other. Both ends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::host_of;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xFF;
const CONNECT: u8 = 1;
const IP_V4: u8 = 1;
const NAME: u8 = 3;
const IP_V6: u8 = 4;
const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;
const COMMAND_NOT_SUPPORTED: u8 = 7;

/// Connects to `to` (`host:port`) through the proxy at `proxy`.
///
/// # Errors
/// As of a connection without the proxy: what the other end refuses is refused. The proxy is not there, or is none.
pub async fn dial(proxy: &str, to: &str) -> io::Result<TcpStream> {
    let through =
        |error: io::Error| io::Error::new(error.kind(), format!("proxy {proxy}: {error}"));
    // Were this a refusal, it would be taken for the other end's.
    let missing = |error: io::Error| io::Error::other(format!("proxy {proxy}: {error}"));
    let mut stream = TcpStream::connect(proxy).await.map_err(missing)?;
    stream.set_nodelay(true)?;
    stream.write_all(&[VERSION, 1, NO_AUTHENTICATION]).await.map_err(missing)?;
    let mut method = [0; 2];
    stream.read_exact(&mut method).await.map_err(missing)?;
    if method != [VERSION, NO_AUTHENTICATION] {
        return Err(io::Error::other(format!(
            "proxy {proxy}: it is no SOCKS5 proxy, or wants a password"
        )));
    }
    let mut request = vec![VERSION, CONNECT, 0];
    request.extend(named(to)?);
    stream.write_all(&request).await.map_err(missing)?;
    let mut reply = [0; 3];
    stream.read_exact(&mut reply).await.map_err(missing)?;
    read_address(&mut stream).await.map_err(missing)?;
    let failed =
        |kind: io::ErrorKind, told: &str| Err(through(io::Error::new(kind, told.to_owned())));
    match reply[1] {
        SUCCEEDED => Ok(stream),
        REFUSED => failed(io::ErrorKind::ConnectionRefused, "connection refused"),
        HOST_UNREACHABLE => failed(io::ErrorKind::HostUnreachable, "no route to the host"),
        other => failed(io::ErrorKind::Other, &format!("it does not connect (reply {other})")),
    }
}

/// An address as requests have it.
fn named(address: &str) -> io::Result<Vec<u8>> {
    let wrong =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("'{address}' is no HOST:PORT"));
    let (_, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let host = host_of(address);
    let mut bytes = match host.parse() {
        Ok(IpAddr::V4(ip)) => [&[IP_V4], &ip.octets()[..]].concat(),
        Ok(IpAddr::V6(ip)) => [&[IP_V6], &ip.octets()[..]].concat(),
        Err(_) => {
            let length = u8::try_from(host.len()).map_err(|_| wrong())?;
            [&[NAME, length], host.as_bytes()].concat()
        }
    };
    bytes.extend(port.to_be_bytes());
    Ok(bytes)
}

/// As [`named`] makes it, back to `host:port`.
async fn read_address(stream: &mut TcpStream) -> io::Result<String> {
    let wrong = |told: &str| io::Error::new(io::ErrorKind::InvalidData, told.to_owned());
    let host = match stream.read_u8().await? {
        IP_V4 => Ipv4Addr::from(stream.read_u32().await?).to_string(),
        IP_V6 => format!("[{}]", Ipv6Addr::from(stream.read_u128().await?)),
        NAME => {
            let mut name = vec![0; stream.read_u8().await?.into()];
            stream.read_exact(&mut name).await?;
            String::from_utf8(name).map_err(|_| wrong("its host is no UTF-8"))?
        }
        _ => return Err(wrong("its address is of no known kind")),
    };
    Ok(format!("{host}:{}", stream.read_u16().await?))
}

/// What a client asked a proxy for. It waits for the answer.
#[derive(Debug)]
pub struct ConnectRequest {
    /// Where it wants to be connected to, as `host:port`.
    pub to: String,
    stream: TcpStream,
}

impl ConnectRequest {
    /// Reads what a client asks for.
    ///
    /// # Errors
    /// It speaks something else, or wants something else; it was told so where it can be.
    pub async fn read(mut stream: TcpStream) -> io::Result<ConnectRequest> {
        let wrong = |told: &str| io::Error::new(io::ErrorKind::InvalidData, told.to_owned());
        stream.set_nodelay(true)?;
        let mut head = [0; 2];
        stream.read_exact(&mut head).await?;
        let [version, methods] = head;
        let mut offered = vec![0; methods.into()];
        stream.read_exact(&mut offered).await?;
        if version != VERSION || !offered.contains(&NO_AUTHENTICATION) {
            stream.write_all(&[VERSION, NO_METHOD]).await?;
            return Err(wrong("it speaks no SOCKS5 without authentication"));
        }
        stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
        let mut request = [0; 3];
        stream.read_exact(&mut request).await?;
        let to = read_address(&mut stream).await?;
        let request = match request {
            [VERSION, CONNECT, _] => ConnectRequest { to, stream },
            _ => {
                stream.write_all(&reply(COMMAND_NOT_SUPPORTED)).await?;
                return Err(wrong("it asks for something else than a connection"));
            }
        };
        Ok(request)
    }

    /// Connects to where it wants to be; both ends.
    ///
    /// # Errors
    /// That cannot be done, which the client was told.
    pub async fn connect(self) -> io::Result<(TcpStream, TcpStream)> {
        let ConnectRequest { to, mut stream } = self;
        match TcpStream::connect(&to).await {
            Ok(far) => {
                far.set_nodelay(true)?;
                stream.write_all(&reply(SUCCEEDED)).await?;
                Ok((stream, far))
            }
            Err(error) => {
                let told = match error.kind() {
                    io::ErrorKind::ConnectionRefused => REFUSED,
                    io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                        HOST_UNREACHABLE
                    }
                    _ => FAILED,
                };
                stream.write_all(&reply(told)).await?;
                Err(error)
            }
        }
    }
}

/// With the address that is bound, which nobody asks for.
fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, IP_V4, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::TcpListener;

    use super::*;

    async fn port() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        (listener, address)
    }

    /// A proxy for one connection; where it was asked to go to.
    async fn proxy_once(listener: TcpListener) -> String {
        let (near, _) = listener.accept().await.expect("a client");
        let request = ConnectRequest::read(near).await.expect("it asks");
        let to = request.to.clone();
        if let Ok((mut near, mut far)) = request.connect().await {
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        }
        to
    }

    #[tokio::test]
    async fn a_connection_through_a_proxy_is_one() {
        for host in ["127.0.0.1", "localhost"] {
            let ((far, far_address), (proxy, proxy_address)) = (port().await, port().await);
            let to = format!("{host}:{}", far_address.port());
            let proxying = tokio::spawn(proxy_once(proxy));
            let echo = tokio::spawn(async move {
                let (mut stream, _) = far.accept().await.expect("a connection");
                let mut said = [0; 4];
                stream.read_exact(&mut said).await.expect("four bytes");
                stream.write_all(&said).await.expect("open");
            });
            let mut stream = dial(&proxy_address.to_string(), &to).await.expect("connected");
            stream.write_all(b"ping").await.expect("open");
            let mut heard = [0; 4];
            stream.read_exact(&mut heard).await.expect("an answer");
            assert_eq!(&heard, b"ping");
            drop(stream);
            echo.await.expect("it ends");
            assert_eq!(proxying.await.expect("it ends"), to);
        }
    }

    /// What is refused at the other end is told as that; a proxy that is not there is not.
    #[tokio::test]
    async fn who_refuses_is_told_apart() {
        let ((far, far_address), (proxy, proxy_address)) = (port().await, port().await);
        drop(far);
        let proxying = tokio::spawn(proxy_once(proxy));
        let error = dial(&proxy_address.to_string(), &far_address.to_string()).await;
        assert_eq!(error.expect_err("nobody listens").kind(), io::ErrorKind::ConnectionRefused);
        proxying.await.expect("it ends");
        let error = dial(&proxy_address.to_string(), &far_address.to_string()).await;
        assert_eq!(error.expect_err("no proxy").kind(), io::ErrorKind::Other);
    }

    #[tokio::test]
    async fn what_is_no_address_is_no_request() {
        for address in ["host", "host:", "host:70000", &format!("{}:1", "h".repeat(256))] {
            assert!(named(address).is_err(), "{address}");
        }
        assert_eq!(named("[::1]:258").expect("an address")[..2], [IP_V6, 0]);
    }

    #[tokio::test]
    async fn who_asks_for_something_else_is_told_so() {
        for (said, answer) in [
            (&[4, 1, 0][..], &[VERSION, NO_METHOD][..]),
            (&[VERSION, 1, 2], &[VERSION, NO_METHOD]),
            (
                &[VERSION, 1, 0, VERSION, 2, 0, IP_V4, 127, 0, 0, 1, 0, 80],
                &[VERSION, NO_AUTHENTICATION, VERSION, COMMAND_NOT_SUPPORTED],
            ),
        ] {
            let (listener, address) = port().await;
            let reading = tokio::spawn(async move {
                let (near, _) = listener.accept().await.expect("a client");
                ConnectRequest::read(near).await.map(drop)
            });
            let mut stream = TcpStream::connect(address).await.expect("open");
            stream.write_all(said).await.expect("open");
            let mut heard = vec![0; answer.len()];
            stream.read_exact(&mut heard).await.expect("an answer");
            assert_eq!(heard, answer);
            reading.await.expect("it ends").expect_err("it asks for something else");
        }
    }
}
