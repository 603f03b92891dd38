//! Frames as two clients write them: `azure-servicebus` 7.15.0 for Python (its `_pyamqp` encoder) and
//! rhea 3 for JS, which `@azure/service-bus` speaks through. On channel 1, header included.

use super::*;
use crate::message::{BodyKind, Message};

const PYTHON: &[(&str, &str)] = &[
    (
        "open",
        "\
         0000003902000001005310c02c0aa1026331a1096c6f63616c686f7374700010000060ffff40 \
         40404040c10d02a30770726f64756374a00178",
    ),
    ("begin", "0000002202000001005311c0150840437000010000700001000070ffffffff404040"),
    (
        "attach",
        "\
         0000008302000001005312c0760ea1016c5201560150005001005328c0470ba118616d717073 \
         3a2f2f6c6f63616c686f73743a353637342f7143404356004040c12002a31c636f6d2e6d6963 \
         726f736f66743a73657373696f6e2d66696c74657240404040005329c00a07a1017440404040 \
         4040404040800000000000100000404040",
    ),
    ("flow", "0000002302000001005313c0160b437000010000437000010000520143520a40404040"),
    ("transfer", "0000002402000001005314c0140b520143a0040000000143560056004040404040504159"),
    ("disposition", "0000002102000001005315c014065601520352035600005327c005035601404040"),
    ("detach", "0000001302000001005316c006035201560140"),
    ("close", "0000000f02000001005318c0020140"),
];

const JS: &[(&str, &str)] = &[
    (
        "open",
        "\
         0000004302000001005310d0000000330000000aa1026331a1096c6f63616c686f7374404070 \
         0000ea6040404040d10000001000000002a30770726f64756374a10178",
    ),
    ("begin", "0000002002000001005311d000000010000000044043700000080070ffffffff"),
    (
        "attach",
        "\
         0000005b02000001005312d00000004b00000007a1016c434150005001005328d00000003500 \
         000008a10171404040404040d10000002300000002a31c636f6d2e6d6963726f736f66743a73 \
         657373696f6e2d66696c7465724040",
    ),
    (
        "flow",
        "\
         0000002802000001005313d00000001800000009520170000008004370ffffffff435201520a \
         4041",
    ),
    ("transfer", "0000002202000001005314d00000000f000000054343a00130708001370042504159"),
    (
        "disposition",
        "\
         0000006e02000001005315d00000005e00000005415203520342005325d00000004c00000001 \
         00531dd00000004000000003a319636f6d2e6d6963726f736f66743a646561642d6c65747465 \
         72a10164d10000001900000002a110446561644c6574746572526561736f6ea10172",
    ),
    ("detach", "0000001602000001005316d000000006000000024341"),
    ("close", "0000000c0200000100531845"),
];

/// Python writes delivery annotations after the body, and every field with its nulls (FORM-1).
const PYTHON_MESSAGE: &str = "\
         005370c00b0556014070000013884040005372c11902a313782d6f70742d706172746974696f \
         6e2d6b6579a10173005373c0140d404040a103737562404040404040a101734040005374c10c \
         04a1016b5401a10173a10176005375a00568656c6c6f005371c10602a301645401";

const JS_MESSAGE: &str = "\
         005370d00000000b0000000340407000001388005372d10000001c00000002a313782d6f7074 \
         2d706172746974696f6e2d6b6579a10167005373d0000000130000000b404040a10173404040 \
         404040a10167005374d10000000900000002a1016b5201005377a10568656c6c6f";

const PYTHON_SASL_INIT: &str =
    "0000002602010000005341c01903a309414e4f4e594d4f5553a000a1096c6f63616c686f7374";

/// The performative of a frame, and what follows it.
fn read(frames: &[(&str, &str)], name: &str) -> (Performative, Bytes) {
    let (_, text) = frames.iter().find(|(found, _)| *found == name).expect("a frame");
    let bytes = unhex(text);
    let head = frame::FrameHead::parse(&bytes, frame::FrameType::Amqp, u32::MAX);
    let head = head.expect("a frame's head").expect("8 bytes");
    assert_eq!((head.bytes, head.channel), (bytes.len(), 1), "{name}");
    let body = bytes.slice(head.body_at..);
    let mut reader = Reader::new(&body, &Limits::default());
    let performative = Performative::read(&mut reader).expect(name);
    (performative, reader.rest())
}

#[test]
fn opens_of_the_sdks_are_read() {
    for (frames, max_frame_size, idle_time_out) in
        [(PYTHON, 1_048_576, None), (JS, u32::MAX, Some(60_000))]
    {
        let (Performative::Open(open), _) = read(frames, "open") else { panic!("an open") };
        assert_eq!((&*open.container_id, open.hostname.as_deref()), ("c1", Some("localhost")));
        assert_eq!((open.max_frame_size, open.idle_time_out), (max_frame_size, idle_time_out));
        assert!(open.properties.as_ref().unwrap().get("product").is_some());
    }
}

#[test]
fn conn_15_begins_of_the_sdks_are_read() {
    for (frames, window) in [(PYTHON, 65_536), (JS, 2_048)] {
        let (Performative::Begin(begin), _) = read(frames, "begin") else { panic!("a begin") };
        assert_eq!((begin.remote_channel, begin.incoming_window), (None, window));
        assert_eq!(begin.handle_max, u32::MAX);
    }
}

/// Both write the filter of the next free session as a null.
#[test]
fn link_10_attaches_of_the_sdks_are_read() {
    let table = [(PYTHON, 1, "amqps://localhost:5674/q", true), (JS, 0, "q", false)];
    for (frames, handle, address, has_target) in table {
        let (Performative::Attach(attach), _) = read(frames, "attach") else { panic!("an attach") };
        assert_eq!((&*attach.name, attach.handle, attach.role), ("l", handle, Role::Receiver));
        assert_eq!(attach.snd_settle_mode, SenderSettleMode::Unsettled);
        assert_eq!(attach.rcv_settle_mode, ReceiverSettleMode::Second);
        let source = attach.source.as_ref().unwrap();
        assert_eq!(source.address.as_deref(), Some(address));
        let filter = source.filter.as_ref().unwrap();
        assert_eq!(filter.get("com.microsoft:session-filter"), Some(&Value::Null));
        assert_eq!(attach.target.is_some(), has_target);
    }
}

#[test]
fn flows_of_the_sdks_are_read() {
    for (frames, handle, count, drain) in [(PYTHON, 1, 0, false), (JS, 0, 1, true)] {
        let (Performative::Flow(flow), _) = read(frames, "flow") else { panic!("a flow") };
        assert_eq!((flow.handle, flow.delivery_count), (Some(handle), Some(count)));
        assert_eq!((flow.link_credit, flow.drain), (Some(10), drain));
    }
}

#[test]
fn xfer_6_xfer_10_transfers_of_the_sdks_are_read() {
    let table = [(PYTHON, 1, &[0, 0, 0, 1][..], 0), (JS, 0, b"0", 0x8001_3700)];
    for (frames, handle, tag, format) in table {
        let (Performative::Transfer(transfer), payload) = read(frames, "transfer") else {
            panic!("a transfer")
        };
        assert_eq!((transfer.handle, transfer.delivery_id), (handle, Some(0)));
        assert_eq!(transfer.delivery_tag.unwrap().as_bytes(), tag);
        assert_eq!((transfer.message_format, transfer.settled), (Some(format), Some(false)));
        assert_eq!(&payload[..], b"PAY");
    }
}

#[test]
fn settle_4_settle_7_dispositions_of_the_sdks_are_read() {
    let state = |frames| match read(frames, "disposition") {
        (Performative::Disposition(disposition), _) => {
            assert_eq!((disposition.role, disposition.first), (Role::Receiver, 3));
            assert!(!disposition.settled, "it asks to be answered (SETTLE-4)");
            disposition.state.unwrap()
        }
        (other, _) => panic!("a disposition, not {other:?}"),
    };
    let DeliveryState::Outcome(Outcome::Modified(modified)) = state(PYTHON) else {
        panic!("modified")
    };
    assert_eq!((modified.delivery_failed, modified.undeliverable_here), (Some(true), None));
    let DeliveryState::Outcome(Outcome::Rejected(Some(error))) = state(JS) else {
        panic!("rejected")
    };
    assert_eq!(error.condition.as_str(), "com.microsoft:dead-letter");
    assert_eq!(error.info.unwrap().get("DeadLetterReason"), Some(&"r".into()));
}

#[test]
fn ends_of_the_sdks_are_read() {
    for (frames, handle) in [(PYTHON, 1), (JS, 0)] {
        let expected = Detach { handle, closed: true, error: None };
        assert_eq!(read(frames, "detach").0, Performative::Detach(expected));
        assert_eq!(read(frames, "close").0, Performative::Close(Close { error: None }));
    }
}

#[test]
fn sasl_2_python_sends_an_empty_response() {
    let bytes = unhex(PYTHON_SASL_INIT);
    let sasl = SaslFrame::read(&mut Reader::new(&bytes.slice(8..), &Limits::default()));
    let expected = SaslInit {
        mechanism: Symbol::from_static("ANONYMOUS"),
        initial_response: Some(Bytes::new()),
        hostname: Some("localhost".into()),
    };
    assert_eq!(sasl, Ok(SaslFrame::Init(expected)));
}

#[test]
fn messages_of_the_sdks_are_read() {
    let limits = Limits::default();
    let table =
        [(PYTHON_MESSAGE, BodyKind::Data, "s", "sub"), (JS_MESSAGE, BodyKind::Value, "g", "s")];
    for (text, kind, session, subject) in table {
        let message = Message::parse(unhex(text), &limits).unwrap();
        assert_eq!(message.body_kind(), Some(kind));
        assert_eq!(message.header(&limits).unwrap().ttl, Some(5_000));
        let properties = message.properties(&limits).unwrap();
        assert_eq!(
            (properties.group_id.as_deref(), properties.subject.as_deref()),
            (Some(session), Some(subject))
        );
        let annotations = message.message_annotations(&limits).unwrap();
        assert_eq!(annotations.get("x-opt-partition-key"), Some(&session.into()));
        let properties = message.application_properties(&limits).unwrap();
        assert_eq!(properties.get("k").and_then(Value::as_i64), Some(1));
    }
}
