//! Where a link begins and ends: sources, targets and the transaction coordinator (AMQP 1.0, part 3,
//! 3.5 and part 4, 4.5.1).

use bytes::BytesMut;
use bytestring::ByteString;

use super::composite::composite;
use super::primitive::{Decode, Encode, Symbol, Symbols, field};
use super::state::Outcome;
use super::{Composite, DecodeError, Map, Reader, code, descriptor};

composite! {
    /// Where messages come from. Clients write addresses in several forms; whoever answers echoes
    /// them letter for letter (LINK-3).
    #[derive(Default)]
    full Source = "source", descriptor::SOURCE {
        address: Option<ByteString>,
        durable: u32 = 0,
        expiry_policy: Option<Symbol>,
        timeout: u32 = 0,
        dynamic: bool = false,
        dynamic_node_properties: Option<Map>,
        distribution_mode: Option<Symbol>,
        filter: Option<Map>,
        default_outcome: Option<Outcome>,
        outcomes: Symbols,
        capabilities: Symbols,
    }

    /// Where messages go.
    #[derive(Default)]
    full Target = "target", descriptor::TARGET {
        address: Option<ByteString>,
        durable: u32 = 0,
        expiry_policy: Option<Symbol>,
        timeout: u32 = 0,
        dynamic: bool = false,
        dynamic_node_properties: Option<Map>,
        capabilities: Symbols,
    }

    /// The target of a control link of transactions (COORD-1).
    #[derive(Default)]
    full Coordinator = "coordinator", descriptor::COORDINATOR {
        capabilities: Symbols,
    }
}

/// The target of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyTarget {
    Node(Target),
    Coordinator(Coordinator),
}

impl AnyTarget {
    pub fn address(&self) -> Option<&str> {
        match self {
            AnyTarget::Node(target) => target.address.as_deref(),
            AnyTarget::Coordinator(_) => None,
        }
    }
}

field!(AnyTarget);

impl Decode for AnyTarget {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<AnyTarget, DecodeError> {
        let expected = "target or coordinator";
        if code != code::DESCRIBED {
            return Err(DecodeError::Type { expected, code });
        }
        match reader.descriptor_code()? {
            Some(descriptor::TARGET) => reader.fields().map(AnyTarget::Node),
            Some(descriptor::COORDINATOR) => reader.fields().map(AnyTarget::Coordinator),
            _ => Err(DecodeError::Descriptor { expected }),
        }
    }
}

impl Encode for AnyTarget {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            AnyTarget::Node(target) => target.write(out),
            AnyTarget::Coordinator(coordinator) => coordinator.write(out),
        }
    }
}

field!(Map);
