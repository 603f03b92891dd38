//! Arbitrary values and performatives.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::super::*;
use bytes::Bytes;
use bytestring::ByteString;

pub(super) fn text() -> impl Strategy<Value = ByteString> {
    // Long ones too, for the wide forms.
    prop_oneof![9 => ".{0,12}", 1 => "[a-z]{250,300}"].prop_map(ByteString::from)
}

pub(super) fn symbol() -> impl Strategy<Value = Symbol> {
    "[a-z:-]{1,20}".prop_map(|name| Symbol(name.into()))
}

fn binary() -> impl Strategy<Value = Bytes> {
    prop_oneof![9 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 250..300)].prop_map(Bytes::from)
}

fn primitive() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        prop_oneof![any::<u32>(), 0..300u32].prop_map(Value::Uint),
        prop_oneof![any::<u64>(), 0..300u64].prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        prop_oneof![any::<i32>(), -200..200i32].prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        (-1e30f32..1e30).prop_map(Value::Float),
        (-1e300f64..1e300).prop_map(Value::Double),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<char>().prop_map(Value::Char),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        binary().prop_map(Value::Binary),
        text().prop_map(Value::String),
        symbol().prop_map(Value::Symbol),
    ]
}

/// Elements of one type.
fn array() -> impl Strategy<Value = Value> {
    prop_oneof![
        vec(any::<u32>().prop_map(Value::Uint), 1..5),
        vec(any::<bool>().prop_map(Value::Bool), 1..5),
        vec(any::<i64>().prop_map(Value::Long), 1..40),
        vec(any::<[u8; 16]>().prop_map(Value::Uuid), 1..5),
        // ASCII: serde_amqp 0.18 cannot read back an array of other text that it wrote itself.
        vec("[ -~]{0,12}".prop_map(|text| Value::String(text.into())), 1..5),
        vec(symbol().prop_map(Value::Symbol), 1..5),
        vec(binary().prop_map(Value::Binary), 1..5),
    ]
    .prop_map(|items| Value::Array(Array::new(items).expect("one type")))
}

pub(super) fn value() -> impl Strategy<Value = Value> {
    prop_oneof![4 => primitive(), 1 => array()].prop_recursive(3, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::List),
            vec((text(), inner.clone()), 0..6).prop_map(|entries| Value::Map(map_of(entries))),
            (
                prop_oneof![any::<u64>().prop_map(Value::Ulong), symbol().prop_map(Value::Symbol)],
                inner
            )
                .prop_map(|parts| Value::Described(Box::new(parts))),
        ]
    })
}

/// Keys are unique, as they have to be.
fn map_of(entries: Vec<(ByteString, Value)>) -> Map {
    let unique: std::collections::BTreeMap<_, _> = entries.into_iter().collect();
    Map(unique.into_iter().map(|(key, value)| (Value::String(key), value)).collect())
}

/// Keys are symbols.
pub(super) fn fields() -> impl Strategy<Value = Map> {
    prop::collection::btree_map(symbol(), value(), 1..4).prop_map(|entries| {
        Map(entries.into_iter().map(|(key, value)| (Value::Symbol(key), value)).collect())
    })
}

fn symbols() -> impl Strategy<Value = Symbols> {
    vec(symbol(), 0..3).prop_map(Symbols)
}

pub(super) fn error() -> impl Strategy<Value = Error> {
    (symbol(), of(text()), of(fields())).prop_map(|(condition, description, info)| Error {
        condition,
        description,
        info,
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Accepted),
        of(error()).prop_map(Outcome::Rejected),
        Just(Outcome::Released),
        (of(any::<bool>()), of(any::<bool>()), of(fields())).prop_map(|(failed, here, map)| {
            Outcome::Modified(Modified {
                delivery_failed: failed,
                undeliverable_here: here,
                message_annotations: map,
            })
        }),
    ]
}

pub(super) fn state() -> impl Strategy<Value = DeliveryState> {
    prop_oneof![
        outcome().prop_map(DeliveryState::Outcome),
        (any::<u32>(), any::<u64>()).prop_map(|(section_number, section_offset)| {
            DeliveryState::Received(Received { section_number, section_offset })
        }),
        binary().prop_map(|txn_id| DeliveryState::Declared(Declared { txn_id })),
        (binary(), of(outcome()))
            .prop_map(|(txn_id, outcome)| DeliveryState::Transactional { txn_id, outcome }),
    ]
}

fn source() -> impl Strategy<Value = Source> {
    let policy = of(Just(Symbol::from_static("never")));
    let mode = of(Just(Symbol::from_static("move")));
    let filter = of(symbol().prop_map(|name| {
        let described = Value::Described(Box::new((Value::Ulong(0x137_0000_000C), "s".into())));
        Map(vec![(Value::Symbol(name), described)])
    }));
    let states = (of(outcome()), symbols(), symbols());
    let node = (of(text()), 0..3u32, policy, any::<u32>(), any::<bool>(), of(fields()));
    (node, mode, filter, states).prop_map(|(node, distribution_mode, filter, states)| Source {
        address: node.0,
        durable: node.1,
        expiry_policy: node.2,
        timeout: node.3,
        dynamic: node.4,
        dynamic_node_properties: node.5,
        distribution_mode,
        filter,
        default_outcome: states.0,
        outcomes: states.1,
        capabilities: states.2,
    })
}

fn target() -> impl Strategy<Value = AnyTarget> {
    let node = (of(text()), 0..3u32, any::<u32>(), any::<bool>(), symbols());
    let transactions = Symbols(vec![Symbol::from_static("amqp:local-transactions")]);
    prop_oneof![
        Just(AnyTarget::Coordinator(Coordinator { capabilities: transactions })),
        node.prop_map(|(address, durable, timeout, dynamic, capabilities)| {
            AnyTarget::Node(Target {
                address,
                durable,
                timeout,
                dynamic,
                capabilities,
                ..Target::default()
            })
        }),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Sender), Just(Role::Receiver)]
}

fn receiver_mode() -> impl Strategy<Value = ReceiverSettleMode> {
    prop_oneof![Just(ReceiverSettleMode::First), Just(ReceiverSettleMode::Second)]
}

fn attach() -> impl Strategy<Value = Attach> {
    use SenderSettleMode::{Mixed, Settled, Unsettled};
    let sender_mode = prop_oneof![Just(Mixed), Just(Settled), Just(Unsettled)];
    let head = (text(), any::<u32>(), role(), sender_mode, receiver_mode());
    let tail = (of(any::<u32>()), of(any::<u64>()), symbols(), symbols(), of(fields()));
    (head, of(source()), of(target()), tail).prop_map(|(head, source, target, tail)| Attach {
        name: head.0,
        handle: head.1,
        role: head.2,
        snd_settle_mode: head.3,
        rcv_settle_mode: head.4,
        source,
        target,
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: tail.0,
        max_message_size: tail.1,
        offered_capabilities: tail.2,
        desired_capabilities: tail.3,
        properties: tail.4,
    })
}

fn open() -> impl Strategy<Value = Open> {
    let head = (text(), of(text()), any::<u32>(), any::<u16>(), of(any::<u32>()));
    (head, symbols(), symbols(), of(fields())).prop_map(|(head, offered, desired, properties)| {
        Open {
            container_id: head.0,
            hostname: head.1,
            max_frame_size: head.2,
            channel_max: head.3,
            idle_time_out: head.4,
            outgoing_locales: Symbols::default(),
            incoming_locales: Symbols::default(),
            offered_capabilities: offered,
            desired_capabilities: desired,
            properties,
        }
    })
}

fn begin() -> impl Strategy<Value = Begin> {
    (of(any::<u16>()), any::<[u32; 4]>(), symbols(), of(fields())).prop_map(
        |(remote_channel, numbers, offered_capabilities, properties)| Begin {
            remote_channel,
            next_outgoing_id: numbers[0],
            incoming_window: numbers[1],
            outgoing_window: numbers[2],
            handle_max: numbers[3],
            offered_capabilities,
            desired_capabilities: Symbols::default(),
            properties,
        },
    )
}

fn flow() -> impl Strategy<Value = Flow> {
    let link = (of(any::<u32>()), of(any::<u32>()), of(any::<u32>()), of(any::<u32>()));
    (of(any::<u32>()), any::<[u32; 3]>(), link, any::<[bool; 2]>(), of(fields())).prop_map(
        |(next_incoming_id, session, link, flags, properties)| Flow {
            next_incoming_id,
            incoming_window: session[0],
            next_outgoing_id: session[1],
            outgoing_window: session[2],
            handle: link.0,
            delivery_count: link.1,
            link_credit: link.2,
            available: link.3,
            drain: flags[0],
            echo: flags[1],
            properties,
        },
    )
}

fn tag() -> impl Strategy<Value = Tag> {
    vec(any::<u8>(), 0..=Tag::BYTES_MAX).prop_map(|bytes| Tag::new(&bytes).expect("32 bytes"))
}

fn transfer() -> impl Strategy<Value = Transfer> {
    let ids = (any::<u32>(), of(any::<u32>()), of(tag()), of(any::<u32>()), of(any::<bool>()));
    (ids, any::<[bool; 4]>(), of(receiver_mode()), of(state())).prop_map(
        |(ids, flags, rcv_settle_mode, state)| Transfer {
            handle: ids.0,
            delivery_id: ids.1,
            delivery_tag: ids.2,
            message_format: ids.3,
            settled: ids.4,
            more: flags[0],
            rcv_settle_mode,
            state,
            resume: flags[1],
            aborted: flags[2],
            batchable: flags[3],
        },
    )
}

fn disposition() -> impl Strategy<Value = Disposition> {
    (role(), any::<u32>(), of(any::<u32>()), any::<bool>(), of(state()), any::<bool>()).prop_map(
        |(role, first, last, settled, state, batchable)| Disposition {
            role,
            first,
            last,
            settled,
            state,
            batchable,
        },
    )
}

pub(super) fn performative() -> impl Strategy<Value = Performative> {
    prop_oneof![
        open().prop_map(|open| Performative::Open(Box::new(open))),
        begin().prop_map(|begin| Performative::Begin(Box::new(begin))),
        attach().prop_map(|attach| Performative::Attach(Box::new(attach))),
        flow().prop_map(Performative::Flow),
        transfer().prop_map(Performative::Transfer),
        disposition().prop_map(Performative::Disposition),
        (any::<u32>(), any::<bool>(), of(error())).prop_map(|(handle, closed, error)| {
            Performative::Detach(Detach { handle, closed, error })
        }),
        of(error()).prop_map(|error| Performative::End(End { error })),
        of(error()).prop_map(|error| Performative::Close(Close { error })),
    ]
}

pub(super) fn sasl() -> impl Strategy<Value = SaslFrame> {
    prop_oneof![
        vec(symbol(), 1..4).prop_map(|symbols| {
            SaslFrame::Mechanisms(SaslMechanisms { mechanisms: Symbols(symbols) })
        }),
        (symbol(), of(binary()), of(text())).prop_map(|(mechanism, initial_response, hostname)| {
            SaslFrame::Init(SaslInit { mechanism, initial_response, hostname })
        }),
        binary().prop_map(|challenge| SaslFrame::Challenge(SaslChallenge { challenge })),
        binary().prop_map(|response| SaslFrame::Response(SaslResponse { response })),
        (0..5u8, of(binary())).prop_map(|(code, additional_data)| {
            SaslFrame::Outcome(SaslOutcome { code, additional_data })
        }),
    ]
}
