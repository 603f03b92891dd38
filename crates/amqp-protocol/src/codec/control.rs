//! What is asked on the control link of transactions (COORD-2, COORD-3; AMQP 1.0, part 4, 4.5.2 and
//! 4.5.3).

use bytes::{Bytes, BytesMut};

use super::{Composite, Declare, DecodeError, Discharge, Encode, Reader, descriptor};
use crate::Limits;

/// The body of a message to the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    Declare(Declare),
    Discharge(Discharge),
}

impl Control {
    /// Decodes the body's section, as encoded.
    ///
    /// # Errors
    /// [`DecodeError`] if it is no amqp-value, or that asks for something else.
    pub fn parse(body: &Bytes, limits: &Limits) -> Result<Control, DecodeError> {
        let mut reader = Reader::new(body, limits);
        let expected = "declare or discharge";
        if reader.descriptor("message section")? != descriptor::AMQP_VALUE {
            return Err(DecodeError::Descriptor { expected });
        }
        let control = match reader.descriptor(expected)? {
            descriptor::DECLARE => Control::Declare(reader.fields()?),
            descriptor::DISCHARGE => Control::Discharge(reader.fields()?),
            _ => return Err(DecodeError::Descriptor { expected }),
        };
        reader.finish()?;
        Ok(control)
    }
}

/// As the value of a body: a client's side.
impl Encode for Control {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Control::Declare(declare) => declare.write(out),
            Control::Discharge(discharge) => discharge.write(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> Result<Control, DecodeError> {
        Control::parse(&Bytes::copy_from_slice(bytes), &Limits::default())
    }

    /// COORD-2, COORD-3, as clients write it: with small and with named descriptors, with fields left
    /// out.
    #[test]
    fn coord_2_coord_3_what_a_control_link_is_asked() {
        let declare = Control::Declare(Declare::default());
        assert_eq!(parsed(b"\x00\x53\x77\x00\x53\x31\x45"), Ok(declare.clone()));
        assert_eq!(parsed(b"\x00\x53\x77\x00\x53\x31\xc0\x02\x01\x40"), Ok(declare.clone()));
        assert_eq!(parsed(b"\x00\x53\x77\x00\xa3\x11amqp:declare:list\x45"), Ok(declare));
        let discharge =
            |fail| Control::Discharge(Discharge { txn_id: Bytes::from_static(b"id"), fail });
        let bytes = b"\x00\x53\x77\x00\x53\x32\xc0\x05\x01\xa0\x02id";
        assert_eq!(parsed(bytes), Ok(discharge(false)));
        let bytes = b"\x00\x53\x77\x00\x53\x32\xc0\x06\x02\xa0\x02id\x41";
        assert_eq!(parsed(bytes), Ok(discharge(true)));
    }

    #[test]
    fn coord_11_what_is_neither_is_refused() {
        for bytes in [
            &b""[..],
            b"\x00\x53\x75\xa0\x00",             // A data section.
            b"\x00\x53\x77\x40",                 // A value that is described by nothing.
            b"\x00\x53\x77\x00\x53\x24\x45",     // Accepted.
            b"\x00\x53\x77\x00\x53\x32\x45",     // A discharge of nothing.
            b"\x00\x53\x77\x00\x53\x31\x45\x40", // More than one.
        ] {
            assert!(parsed(bytes).is_err(), "{bytes:?}");
        }
    }
}
