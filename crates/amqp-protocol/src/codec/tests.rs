//! Encodings against other implementations' and against arbitrary input.

mod arbitrary;
mod golden;
mod hostile;
mod oracle;
mod round_trip;

use bytes::{Bytes, BytesMut};

use super::*;
use crate::Limits;

fn encoded(value: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    value.encode(&mut out);
    out.freeze()
}

fn encoded_performative(performative: &Performative) -> Bytes {
    let mut out = BytesMut::new();
    performative.write(&mut out);
    out.freeze()
}

fn performative(bytes: &Bytes) -> Result<Performative, DecodeError> {
    let mut reader = Reader::new(bytes, &Limits::default());
    let performative = Performative::read(&mut reader)?;
    reader.finish()?;
    Ok(performative)
}

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("hexadecimal digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    };
    digits.chunks(2).map(byte).collect()
}
