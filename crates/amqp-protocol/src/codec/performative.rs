//! The nine performatives (AMQP 1.0, part 2, 2.7) and the five frames of SASL (part 5, 5.3.3), fields
//! in wire order.

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use super::composite::composite;
use super::primitive::{Decode, Encode, Symbol, Symbols, Tag, field};
use super::state::{DeliveryState, Error};
use super::terminus::{AnyTarget, Source, Target};
use super::{Composite, DecodeError, Map, Reader, Value, descriptor};
use crate::Limits;

composite! {
    full Open = "open", descriptor::OPEN {
        container_id: ByteString,
        hostname: Option<ByteString>,
        max_frame_size: u32 = u32::MAX,
        channel_max: u16 = u16::MAX,
        /// Milliseconds.
        idle_time_out: Option<u32>,
        outgoing_locales: Symbols,
        incoming_locales: Symbols,
        offered_capabilities: Symbols,
        desired_capabilities: Symbols,
        properties: Option<Map>,
    }

    full Begin = "begin", descriptor::BEGIN {
        remote_channel: Option<u16>,
        next_outgoing_id: u32,
        incoming_window: u32,
        outgoing_window: u32,
        handle_max: u32 = u32::MAX,
        offered_capabilities: Symbols,
        desired_capabilities: Symbols,
        properties: Option<Map>,
    }

    full Attach = "attach", descriptor::ATTACH {
        name: ByteString,
        handle: u32,
        role: Role,
        snd_settle_mode: SenderSettleMode = SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode::First,
        source: Option<Source>,
        target: Option<AnyTarget>,
        unsettled: Option<Map>,
        incomplete_unsettled: bool = false,
        initial_delivery_count: Option<u32>,
        max_message_size: Option<u64>,
        offered_capabilities: Symbols,
        desired_capabilities: Symbols,
        properties: Option<Map>,
    }

    #[derive(Default)]
    full Flow = "flow", descriptor::FLOW {
        next_incoming_id: Option<u32>,
        incoming_window: u32,
        next_outgoing_id: u32,
        outgoing_window: u32,
        handle: Option<u32>,
        delivery_count: Option<u32>,
        link_credit: Option<u32>,
        available: Option<u32>,
        drain: bool = false,
        echo: bool = false,
        properties: Option<Map>,
    }

    /// The payload follows the performative in the frame. Written in full: Python finds the payload by
    /// the number of fields before it.
    #[derive(Default)]
    full Transfer = "transfer", descriptor::TRANSFER {
        handle: u32,
        delivery_id: Option<u32>,
        delivery_tag: Option<Tag>,
        message_format: Option<u32>,
        settled: Option<bool>,
        more: bool = false,
        rcv_settle_mode: Option<ReceiverSettleMode>,
        state: Option<DeliveryState>,
        resume: bool = false,
        aborted: bool = false,
        batchable: bool = false,
    }

    /// `role` is that of the side that sends it.
    full Disposition = "disposition", descriptor::DISPOSITION {
        role: Role,
        first: u32,
        last: Option<u32>,
        settled: bool = false,
        state: Option<DeliveryState>,
        batchable: bool = false,
    }

    full Detach = "detach", descriptor::DETACH {
        handle: u32,
        closed: bool = false,
        error: Option<Error>,
    }

    #[derive(Default)]
    full End = "end", descriptor::END {
        error: Option<Error>,
    }

    #[derive(Default)]
    full Close = "close", descriptor::CLOSE {
        error: Option<Error>,
    }

    full SaslMechanisms = "sasl-mechanisms", descriptor::SASL_MECHANISMS {
        mechanisms: Symbols,
    }

    full SaslInit = "sasl-init", descriptor::SASL_INIT {
        mechanism: Symbol,
        initial_response: Option<Bytes>,
        hostname: Option<ByteString>,
    }

    full SaslChallenge = "sasl-challenge", descriptor::SASL_CHALLENGE {
        challenge: Bytes,
    }

    full SaslResponse = "sasl-response", descriptor::SASL_RESPONSE {
        response: Bytes,
    }

    full SaslOutcome = "sasl-outcome", descriptor::SASL_OUTCOME {
        code: u8,
        additional_data: Option<Bytes>,
    }
}

/// A type that is one of a few small numbers, or a boolean, on the wire.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident as $wire:ty { $( $(#[$variant_meta:meta])* $variant:ident = $number:literal ),* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$variant_meta])* $variant ),* }

        impl Decode for $name {
            fn decode(reader: &mut Reader<'_>, code: u8) -> Result<$name, DecodeError> {
                #[allow(unreachable_patterns, reason = "a boolean has no third value")]
                match <$wire>::decode(reader, code)? {
                    $( $number => Ok($name::$variant), )*
                    _ => Err(DecodeError::Range { expected: stringify!($name) }),
                }
            }
        }

        impl Encode for $name {
            fn encode(&self, out: &mut BytesMut) {
                let wire: $wire = match self { $( $name::$variant => $number ),* };
                wire.encode(out);
            }
        }

        field!($name);
    };
}

choice! {
    /// The end of a link one side is.
    Role as bool { Sender = false, Receiver = true }
}

choice! {
    /// Whether a sender settles what it sends.
    SenderSettleMode as u8 { Unsettled = 0, Settled = 1, Mixed = 2 }
}

choice! {
    /// Whether a receiver settles first, or after the sender has.
    ReceiverSettleMode as u8 { First = 0, Second = 1 }
}

impl Role {
    pub fn opposite(self) -> Role {
        match self {
            Role::Sender => Role::Receiver,
            Role::Receiver => Role::Sender,
        }
    }
}

/// What an AMQP frame begins with. The rare ones are boxed, so that the frequent ones move fast.
#[derive(Clone, Debug, PartialEq)]
pub enum Performative {
    Open(Box<Open>),
    Begin(Box<Begin>),
    Attach(Box<Attach>),
    Flow(Flow),
    Transfer(Transfer),
    Disposition(Disposition),
    Detach(Detach),
    End(End),
    Close(Close),
}

impl Performative {
    /// Reads a performative; the payload of a transfer is what [`Reader::rest`] then has.
    pub fn read(reader: &mut Reader<'_>) -> Result<Performative, DecodeError> {
        let expected = "performative";
        Ok(match reader.descriptor(expected)? {
            Open::CODE => Performative::Open(Box::new(reader.fields()?)),
            Begin::CODE => Performative::Begin(Box::new(reader.fields()?)),
            Attach::CODE => Performative::Attach(Box::new(reader.fields()?)),
            Flow::CODE => Performative::Flow(reader.fields()?),
            Transfer::CODE => Performative::Transfer(reader.fields()?),
            Disposition::CODE => Performative::Disposition(reader.fields()?),
            Detach::CODE => Performative::Detach(reader.fields()?),
            End::CODE => Performative::End(reader.fields()?),
            Close::CODE => Performative::Close(reader.fields()?),
            _ => return Err(DecodeError::Descriptor { expected }),
        })
    }

    pub fn write(&self, out: &mut BytesMut) {
        match self {
            Performative::Open(open) => open.write(out),
            Performative::Begin(begin) => begin.write(out),
            Performative::Attach(attach) => attach.write(out),
            Performative::Flow(flow) => flow.write(out),
            Performative::Transfer(transfer) => transfer.write(out),
            Performative::Disposition(disposition) => disposition.write(out),
            Performative::Detach(detach) => detach.write(out),
            Performative::End(end) => end.write(out),
            Performative::Close(close) => close.write(out),
        }
    }
}

/// What a SASL frame holds.
#[derive(Clone, Debug, PartialEq)]
pub enum SaslFrame {
    Mechanisms(SaslMechanisms),
    Init(SaslInit),
    Challenge(SaslChallenge),
    Response(SaslResponse),
    Outcome(SaslOutcome),
}

impl SaslFrame {
    pub fn read(reader: &mut Reader<'_>) -> Result<SaslFrame, DecodeError> {
        let expected = "SASL frame";
        Ok(match reader.descriptor(expected)? {
            SaslMechanisms::CODE => SaslFrame::Mechanisms(reader.fields()?),
            SaslInit::CODE => SaslFrame::Init(reader.fields()?),
            SaslChallenge::CODE => SaslFrame::Challenge(reader.fields()?),
            SaslResponse::CODE => SaslFrame::Response(reader.fields()?),
            SaslOutcome::CODE => SaslFrame::Outcome(reader.fields()?),
            _ => return Err(DecodeError::Descriptor { expected }),
        })
    }

    pub fn write(&self, out: &mut BytesMut) {
        match self {
            SaslFrame::Mechanisms(mechanisms) => mechanisms.write(out),
            SaslFrame::Init(init) => init.write(out),
            SaslFrame::Challenge(challenge) => challenge.write(out),
            SaslFrame::Response(response) => response.write(out),
            SaslFrame::Outcome(outcome) => outcome.write(out),
        }
    }
}

impl Attach {
    /// Asks to send to `address`: deliveries wait for their outcome.
    pub fn sender(name: &str, address: &str) -> Attach {
        Attach::new(name, address, Role::Sender)
    }

    /// Asks to receive from `address`: deliveries wait for a verdict, and the verdict for an answer.
    pub fn receiver(name: &str, address: &str) -> Attach {
        Attach::new(name, address, Role::Receiver)
    }

    /// The address stands on both sides: which one a server reads, it chooses by the role.
    fn new(name: &str, address: &str, role: Role) -> Attach {
        let target = Target { address: Some(address.into()), ..Target::default() };
        Attach {
            name: name.into(),
            handle: 0, // The engine's to choose.
            role,
            snd_settle_mode: SenderSettleMode::Unsettled,
            rcv_settle_mode: ReceiverSettleMode::Second,
            source: Some(Source { address: Some(address.into()), ..Source::default() }),
            target: Some(AnyTarget::Node(target)),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: None,
        }
    }

    /// The reply that accepts this attach (LINK-3, LINK-4): name and modes mirrored, role opposite,
    /// source and target as the peer wrote them, empty ones where it wrote none, properties never
    /// null.
    pub fn reply(&self, max_message_size: u64) -> Attach {
        Attach {
            name: self.name.clone(),
            handle: 0, // The engine's to choose.
            role: self.role.opposite(),
            snd_settle_mode: self.snd_settle_mode,
            rcv_settle_mode: self.rcv_settle_mode,
            source: Some(self.source.clone().unwrap_or_default()),
            target: Some(self.target.clone().unwrap_or(AnyTarget::Node(Default::default()))),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (self.role == Role::Receiver).then_some(0),
            max_message_size: Some(max_message_size),
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: Some(Map::default()),
        }
    }

    /// The same in bytes of its own, so that it does not keep the frame that it came in, and how many
    /// it takes in memory. What a peer says of deliveries of an earlier link is left out: nothing is
    /// resumed here.
    ///
    /// # Errors
    /// Nesting that is deeper than `limits` allow.
    pub(crate) fn compact(mut self, limits: &Limits) -> Result<(Attach, usize), DecodeError> {
        // A list that grows as it is read has up to twice the room that it needs.
        const VALUE_BYTES: usize = 2 * size_of::<Value>();
        self.unsettled = None;
        let mut bytes = BytesMut::new();
        self.write(&mut bytes);
        let bytes = Bytes::copy_from_slice(&bytes);
        let mut reader = Reader::new(&bytes, limits);
        let attach = reader.composite()?;
        let kept = size_of::<Attach>() + bytes.len() + reader.counted() as usize * VALUE_BYTES;
        Ok((attach, kept))
    }

    /// The text under a link property.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.as_ref()?.get(name)?.as_str()
    }
}
