//! Where a link begins and ends: sources, targets and the transaction coordinator (AMQP 1.0, part 3,
//! 3.5 and part 4, 4.5.1).

use bytes::BytesMut;
use bytestring::ByteString;

use super::composite::composite;
use super::primitive::{Decode, Encode, Symbol, Symbols, field};
use super::state::Outcome;
use super::{Composite, DecodeError, Map, Reader, Value, code, descriptor};

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

/// What a receiver's filter says of sessions (LINK-10, LINK-11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFilter {
    /// No session is asked for.
    Absent,
    /// Any free session.
    Next,
    Named(ByteString),
    /// .NET's opt-in, not offered here.
    NonExclusive,
}

/// The key and, described, the name of the session filter.
pub const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// See [`SessionFilter::NonExclusive`].
pub const NON_EXCLUSIVE_SESSION_FILTER: &str = "com.microsoft:non-exclusive-session-filter:list";

impl Source {
    /// # Errors
    /// [`DecodeError::Type`] if the filter's value is neither text nor null.
    pub fn session_filter(&self) -> Result<SessionFilter, DecodeError> {
        let Some(filter) = &self.filter else { return Ok(SessionFilter::Absent) };
        if filter.get(NON_EXCLUSIVE_SESSION_FILTER).is_some() {
            return Ok(SessionFilter::NonExclusive);
        }
        // Go sends the value described, the others plain.
        let value = match filter.get(SESSION_FILTER) {
            None => return Ok(SessionFilter::Absent),
            Some(Value::Described(parts)) => &parts.1,
            Some(value) => value,
        };
        match value {
            Value::Null => Ok(SessionFilter::Next),
            Value::String(name) => Ok(SessionFilter::Named(name.clone())),
            Value::Symbol(name) => Ok(SessionFilter::Named(name.0.clone())),
            _ => Err(DecodeError::Type { expected: "session id", code: code::DESCRIBED }),
        }
    }

    /// Names the session that was locked (LINK-10), in the form it was asked for: Go, which describes
    /// it, reads no other.
    pub fn set_session(&mut self, session: &str) {
        let asked = self.filter.as_ref().and_then(|filter| filter.get(SESSION_FILTER));
        let name = match asked {
            Some(Value::Described(parts)) => {
                Value::Described(Box::new((parts.0.clone(), session.into())))
            }
            _ => session.into(),
        };
        self.filter = Some(Map::default().symbol(SESSION_FILTER, name));
    }
}

field!(Map);
