//! Identities and instants.

use domain::{
    EntityId, GroupId, LockToken, Origin, QueueId, ReceiverId, SequenceNumber, Span, SubQueue,
    Timestamp,
};

use crate::codec::{Random, choice, record, wrapper};
use crate::{Codec, Error, Reader};

wrapper!(GroupId, EntityId, SequenceNumber, Timestamp, Span);
choice!(SubQueue { 0 => Main, 1 => DeadLetter, 2 => Transfer, 3 => TransferDeadLetter });
record!(QueueId { entity, sub });
record!(ReceiverId { node, link, epoch });

/// As clients see it: 16 bytes.
impl Codec for LockToken {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    fn take(input: &mut Reader<'_>) -> Result<LockToken, Error> {
        input.array().map(LockToken::from_bytes)
    }
}

/// Producers are drawn at random, hence not a varint.
impl Codec for Origin {
    fn put(&self, out: &mut Vec<u8>) {
        let Origin { producer, serial, ordered, retry } = *self;
        Random(producer).put(out);
        serial.put(out);
        ordered.put(out);
        retry.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Origin, Error> {
        Ok(Origin {
            producer: Random::take(input)?.0,
            serial: Codec::take(input)?,
            ordered: Codec::take(input)?,
            retry: Codec::take(input)?,
        })
    }
}
