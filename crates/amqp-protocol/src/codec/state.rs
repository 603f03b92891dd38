//! Errors, outcomes and delivery states (AMQP 1.0, parts 2 to 4: 2.8.14, 3.4, 4.5).

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use super::composite::composite;
use super::primitive::{Decode, Encode, Symbol, field};
use super::{Composite, DecodeError, Map, Reader, code, descriptor};

composite! {
    /// Why something was refused or ended. All three fields are always written, since some clients
    /// read them by position (COND-5).
    full Error = "error", descriptor::ERROR {
        condition: Symbol,
        description: Option<ByteString>,
        info: Option<Map>,
    }

    /// How far a receiver got with a delivery that is resumed.
    trimmed Received = "received", descriptor::RECEIVED {
        section_number: u32,
        section_offset: u64,
    }

    #[derive(Default)]
    full Accepted = "accepted", descriptor::ACCEPTED {}

    /// From a receiver: dead-letter it. From the broker: the request failed, unless the error is null
    /// (SETTLE-5).
    #[derive(Default)]
    full Rejected = "rejected", descriptor::REJECTED {
        error: Option<Error>,
    }

    #[derive(Default)]
    full Released = "released", descriptor::RELEASED {}

    /// Abandon or, with `undeliverable_here`, defer (SETTLE-7). Service Bus takes the third field for
    /// application properties to change (SETTLE-9).
    #[derive(Default)]
    full Modified = "modified", descriptor::MODIFIED {
        delivery_failed: Option<bool>,
        undeliverable_here: Option<bool>,
        message_annotations: Option<Map>,
    }

    /// A transaction exists.
    full Declared = "declared", descriptor::DECLARED {
        txn_id: Bytes,
    }

    /// Asks for a transaction.
    #[derive(Default)]
    full Declare = "declare", descriptor::DECLARE {
        global_id: Option<Bytes>,
    }

    /// Ends a transaction: commit, or with `fail` roll back.
    full Discharge = "discharge", descriptor::DISCHARGE {
        txn_id: Bytes,
        fail: bool = false,
    }
}

impl Error {
    pub fn new(condition: &'static str, description: impl Into<ByteString>) -> Error {
        Error {
            condition: Symbol::from_static(condition),
            description: Some(description.into()),
            info: None,
        }
    }

    /// Takes so many bytes off the text's end, and what more it takes to say so.
    pub(crate) fn shorten(&mut self, bytes: usize) {
        const CUT: &str = "…";
        let Some(text) = &self.description else { return };
        let mut at = text.len().saturating_sub(bytes + CUT.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        self.description = Some(ByteString::from(format!("{}{CUT}", &text[..at])));
    }
}

/// What has become of a delivery, outside of transactions.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Accepted,
    Rejected(Option<Error>),
    Released,
    Modified(Modified),
}

/// The state a transfer or a disposition gives its deliveries.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryState {
    Outcome(Outcome),
    Received(Received),
    Declared(Declared),
    Transactional { txn_id: Bytes, outcome: Option<Outcome> },
}

impl DeliveryState {
    pub const ACCEPTED: DeliveryState = DeliveryState::Outcome(Outcome::Accepted);
    pub const RELEASED: DeliveryState = DeliveryState::Outcome(Outcome::Released);

    pub fn rejected(error: Error) -> DeliveryState {
        DeliveryState::Outcome(Outcome::Rejected(Some(error)))
    }

    /// Accepted, within a transaction or not.
    pub fn is_accepted(&self) -> bool {
        match self {
            DeliveryState::Outcome(outcome)
            | DeliveryState::Transactional { outcome: Some(outcome), .. } => {
                *outcome == Outcome::Accepted
            }
            DeliveryState::Received(_)
            | DeliveryState::Declared(_)
            | DeliveryState::Transactional { outcome: None, .. } => false,
        }
    }
}

field!(DeliveryState, Outcome);

impl Outcome {
    fn decode_described(
        reader: &mut Reader<'_>,
        code: u64,
    ) -> Result<Option<Outcome>, DecodeError> {
        Ok(Some(match code {
            descriptor::ACCEPTED => reader.fields::<Accepted>().map(|_| Outcome::Accepted)?,
            descriptor::REJECTED => Outcome::Rejected(reader.fields::<Rejected>()?.error),
            descriptor::RELEASED => reader.fields::<Released>().map(|_| Outcome::Released)?,
            descriptor::MODIFIED => Outcome::Modified(reader.fields()?),
            _ => return Ok(None),
        }))
    }
}

impl Decode for Outcome {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<Outcome, DecodeError> {
        let expected = "outcome";
        let found = described(reader, code, expected)?;
        Outcome::decode_described(reader, found)?.ok_or(DecodeError::Descriptor { expected })
    }
}

impl Encode for Outcome {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Outcome::Accepted => Accepted {}.write(out),
            Outcome::Rejected(error) => Rejected { error: error.clone() }.write(out),
            Outcome::Released => Released {}.write(out),
            Outcome::Modified(modified) => modified.write(out),
        }
    }
}

composite! {
    trimmed TransactionalState = "transactional-state", descriptor::TRANSACTIONAL_STATE {
        txn_id: Bytes,
        outcome: Option<Outcome>,
    }
}

impl Decode for DeliveryState {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<DeliveryState, DecodeError> {
        let expected = "delivery state";
        let found = described(reader, code, expected)?;
        if let Some(outcome) = Outcome::decode_described(reader, found)? {
            return Ok(DeliveryState::Outcome(outcome));
        }
        match found {
            descriptor::RECEIVED => reader.fields().map(DeliveryState::Received),
            descriptor::DECLARED => reader.fields().map(DeliveryState::Declared),
            descriptor::TRANSACTIONAL_STATE => {
                let TransactionalState { txn_id, outcome } = reader.fields()?;
                Ok(DeliveryState::Transactional { txn_id, outcome })
            }
            _ => Err(DecodeError::Descriptor { expected }),
        }
    }
}

impl Encode for DeliveryState {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            DeliveryState::Outcome(outcome) => outcome.encode(out),
            DeliveryState::Received(received) => received.write(out),
            DeliveryState::Declared(declared) => declared.write(out),
            DeliveryState::Transactional { txn_id, outcome } => {
                TransactionalState { txn_id: txn_id.clone(), outcome: outcome.clone() }.write(out);
            }
        }
    }
}

fn described(
    reader: &mut Reader<'_>,
    code: u8,
    expected: &'static str,
) -> Result<u64, DecodeError> {
    match code {
        code::DESCRIBED => reader.descriptor_code()?.ok_or(DecodeError::Descriptor { expected }),
        code => Err(DecodeError::Type { expected, code }),
    }
}
