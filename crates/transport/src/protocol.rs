//! What a client speaks, told from the first bytes it sends.

/// Bytes that are enough to tell, whatever they are.
pub(crate) const FIRST_BYTES: usize = 64;
/// The first byte of a TLS connection: a record that holds a handshake. No text and no AMQP begins
/// with it.
const HANDSHAKE_RECORD: u8 = 0x16;
/// AMQP 1.0 itself, SASL before it, and TLS before that, as part 2, 2.2 of the standard numbers them.
const AMQP_1_0: [[u8; 8]; 3] =
    [*b"AMQP\x00\x01\x00\x00", *b"AMQP\x03\x01\x00\x00", *b"AMQP\x02\x01\x00\x00"];
/// RFC 9113, 3.4. No request has the method PRI.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";
/// No method in use is longer.
const METHOD_BYTES_MAX: usize = 32;
/// Methods that nothing but HTTP begins with, whatever they ask for.
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];

/// What is spoken on a connection, inside of TLS if there is any. In the order in which ALPN prefers them:
/// who can speak either of the first two wants the first, unless it is gRPC, which has no choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.1, and what begins with it: WebSockets.
    Http1,
    /// HTTP/2, and so gRPC.
    Http2,
    /// AMQP 1.0.
    Amqp,
}

impl Protocol {
    pub const ALL: [Protocol; 3] = [Protocol::Http1, Protocol::Http2, Protocol::Amqp];

    /// As people call what they want of it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Amqp => "AMQP",
            Protocol::Http1 => "HTTP",
            Protocol::Http2 => "gRPC (HTTP/2)",
        }
    }

    /// As ALPN calls it; AMQP has no name there.
    pub(crate) fn alpn(self) -> Option<&'static [u8]> {
        match self {
            Protocol::Amqp => None,
            Protocol::Http1 => Some(b"http/1.1"),
            Protocol::Http2 => Some(b"h2"),
        }
    }
}

/// What a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A handshake; what is spoken is told inside.
    Tls,
    Spoken(Protocol),
    /// AMQP of another version, as 0-9-1: it has nothing of AMQP 1.0 but the way to say no.
    OtherAmqp,
    /// Nothing that is spoken here.
    Unknown,
}

impl Opening {
    /// Tells it from what a client sent so far; `None`: more is needed. Whatever the bytes are, 64 of
    /// them are enough.
    pub fn of(bytes: &[u8]) -> Option<Opening> {
        match bytes.first()? {
            &HANDSHAKE_RECORD => Some(Opening::Tls),
            b'A' if is_begun(bytes, b"AMQP") => amqp(bytes),
            b'P' if is_begun(bytes, PREFACE) => {
                (bytes.len() >= PREFACE.len()).then_some(Opening::Spoken(Protocol::Http2))
            }
            _ => request(bytes),
        }
    }
}

/// Whether one is the beginning of the other.
fn is_begun(bytes: &[u8], whole: &[u8]) -> bool {
    bytes.iter().zip(whole).all(|(one, other)| one == other)
}

/// The header that every version of AMQP begins with.
fn amqp(bytes: &[u8]) -> Option<Opening> {
    let header = bytes.first_chunk::<8>()?;
    match AMQP_1_0.contains(header) {
        true => Some(Opening::Spoken(Protocol::Amqp)),
        false => Some(Opening::OtherAmqp),
    }
}

/// The line that HTTP/1.1 begins with (RFC 9112, 3): a method, a space, and what it is for. An empty line
/// before it is passed over (RFC 9112, 2.2).
fn request(bytes: &[u8]) -> Option<Opening> {
    let line = match bytes {
        [b'\r'] => return None,
        [b'\r', b'\n', line @ ..] => line,
        line => line,
    };
    let method = line.iter().take_while(|byte| is_of_token(**byte)).count();
    let told = match line.get(method) {
        _ if method > METHOD_BYTES_MAX => Opening::Unknown,
        None => return None,
        Some(b' ') if METHODS.contains(&&line[..method]) => Opening::Spoken(Protocol::Http1),
        // Other protocols have lines of words too, but none that goes on with a path.
        Some(b' ') if method > 0 => match line.get(method + 1)? {
            b'/' | b'*' => Opening::Spoken(Protocol::Http1),
            _ => Opening::Unknown,
        },
        Some(_) => Opening::Unknown,
    };
    Some(told)
}

/// RFC 9110, 5.6.2.
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMQP: Opening = Opening::Spoken(Protocol::Amqp);
    const HTTP_1: Opening = Opening::Spoken(Protocol::Http1);
    const HTTP_2: Opening = Opening::Spoken(Protocol::Http2);

    /// Each row: what a client sends first, and what it speaks. Cut anywhere, it is the same or not told
    /// yet.
    #[test]
    fn conn_23_first_bytes_tell_what_is_spoken() {
        let long = [b'A'; METHOD_BYTES_MAX + 1];
        for (bytes, told) in [
            (&b"\x16\x03\x01\x02\x00\x01"[..], Opening::Tls),
            (b"AMQP\x00\x01\x00\x00", AMQP),
            (b"AMQP\x03\x01\x00\x00\x00\x00\x00\x20", AMQP),
            (b"AMQP\x02\x01\x00\x00", AMQP),
            (b"AMQP\x00\x00\x09\x01", Opening::OtherAmqp),
            (b"AMQP\x01\x01\x00\x0a", Opening::OtherAmqp),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP_2),
            (b"GET / HTTP/1.1\r\n", HTTP_1),
            (b"GET http://localhost/ HTTP/1.1\r\n", HTTP_1),
            (b"PUT /q HTTP/1.1\r\n", HTTP_1),
            (b"POST /q/messages HTTP/1.1\r\n", HTTP_1),
            (b"PATCH x", HTTP_1),
            (b"PRINT /q", HTTP_1),
            (b"PROPFIND /q HTTP/1.1\r\n", HTTP_1),
            (b"ACL /q HTTP/1.1\r\n", HTTP_1),
            (b"AMQPX /q HTTP/1.1\r\n", Opening::OtherAmqp),
            (b"OPTIONS * HTTP/1.1\r\n", HTTP_1),
            (b"CONNECT localhost:5672 HTTP/1.1\r\n", HTTP_1),
            (b"\r\nGET / HTTP/1.1\r\n", HTTP_1),
            (b"EHLO there\r\n", Opening::Unknown),
            (b"SSH-2.0-OpenSSH_9.6\r\n", Opening::Unknown),
            (b"CONNECT\n", Opening::Unknown),
            (b" / HTTP/1.1\r\n", Opening::Unknown),
            (b"\x10\x10\x00\x04MQTT\x04", Opening::Unknown),
            (b"\x00\x00\x00\x1b\x00\x12\x00\x03", Opening::Unknown),
            (b"\x80\x2e\x01\x00\x02", Opening::Unknown),
            (b"*1\r\n$4\r\nPING\r\n", Opening::Unknown),
            (&long, Opening::Unknown),
            (b"\r\r", Opening::Unknown),
        ] {
            assert_eq!(Opening::of(bytes), Some(told), "{}", bytes.escape_ascii());
            for cut in 0..bytes.len() {
                let early = Opening::of(&bytes[..cut]);
                assert!(
                    early.is_none_or(|early| early == told),
                    "{cut} of {}",
                    bytes.escape_ascii()
                );
            }
        }
    }

    /// A client cannot keep anybody waiting for the byte that tells.
    #[test]
    fn conn_23_so_many_bytes_always_tell() {
        for first in 0..=u8::MAX {
            for rest in [b'A', b'P', b'\r', b'\n', b' ', b'/', 0] {
                let mut bytes = [rest; FIRST_BYTES];
                bytes[0] = first;
                assert!(Opening::of(&bytes).is_some(), "{first} and {rest}");
            }
        }
    }
}
