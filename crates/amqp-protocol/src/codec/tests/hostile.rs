//! Whatever the bytes: a value or a named error, and no memory they do not warrant.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestRng, TestRunner};

use super::arbitrary::performative as any_performative;
use super::*;
use crate::message::Message;

fn parse(text: &str) -> Result<Value, DecodeError> {
    Value::parse(&unhex(text), &Limits::default())
}

/// CONN-7: few bytes that claim much.
#[test]
fn conn_7_counts_are_believed_as_far_as_the_bytes_warrant() {
    let values = DecodeError::Values { max: 266 };
    let table = [
        ("an array of 2^32 nulls", "f0 00000005 ffffffff 40", Err(values)),
        ("a list of 2^32 values", "d0 00000004 ffffffff", Err(DecodeError::Size)),
        ("a map of 2^32 entries", "d1 00000004 ffffffff", Err(DecodeError::Size)),
        ("a map of odd count", "c1 03 01 4040", Err(DecodeError::Size)),
        ("a string of 4 GiB", "b1 ffffffff 61", Err(DecodeError::Truncated)),
        ("a list of 4 GiB", "d0 ffffffff 00000001 40", Err(DecodeError::Truncated)),
        ("a list whose size holds no count", "c0 00 00", Err(DecodeError::Size)),
        ("a list that leaves bytes over", "c0 03 01 4040", Err(DecodeError::Size)),
        ("no type", "3f", Err(DecodeError::Code { code: 0x3f })),
        ("half a character", "a1 01 ff", Err(DecodeError::Text)),
        ("a surrogate", "73 0000d800", Err(DecodeError::Range { expected: "char" })),
        ("two booleans", "56 02", Err(DecodeError::Range { expected: "boolean" })),
        ("two values", "4040", Err(DecodeError::Trailing { left: 1 })),
        ("nothing", "", Err(DecodeError::Truncated)),
    ];
    for (what, bytes, expected) in table {
        assert_eq!(parse(bytes), expected, "{what}");
    }
    // A few hundred elements without content are believed.
    let array = parse("e0 02 c8 41").unwrap();
    assert_eq!(array.as_items().unwrap().len(), 200);
}

/// CONN-7: nesting of lists, descriptors, arrays. Skipping does not recurse at all.
#[test]
fn conn_7_nesting_is_bounded() {
    let deep = |open: &[u8], levels: usize| -> Bytes {
        let mut bytes = vec![0x40];
        for _ in 0..levels {
            let size = (bytes.len() + 4) as u32;
            let mut outer = open.to_vec();
            outer.extend(size.to_be_bytes());
            outer.extend(1u32.to_be_bytes());
            outer.extend(bytes);
            bytes = outer;
        }
        bytes.into()
    };
    let limits = Limits::default();
    let too_deep = Err(DecodeError::Depth { max: 16 });
    assert!(Value::parse(&deep(&[0xd0], 16), &limits).is_ok());
    assert_eq!(Value::parse(&deep(&[0xd0], 17), &limits), too_deep);
    assert_eq!(Value::parse(&deep(&[0xd0], 5_000), &limits), too_deep);
    let described = Bytes::from(vec![0; 1 << 20]);
    assert_eq!(Value::parse(&described, &limits), too_deep);
    assert_eq!(Reader::new(&described, &limits).skip(), Err(DecodeError::Truncated));
    // No setting goes deeper than the cap.
    let unbounded = Limits { depth_max: u8::MAX, ..limits };
    let too_deep = Err(DecodeError::Depth { max: Limits::DEPTH_CAP });
    assert_eq!(Value::parse(&deep(&[0xd0], 100), &unbounded), too_deep);
}

fn decode_as_everything(bytes: &Bytes) {
    let limits = Limits::default();
    let _ = Value::parse(bytes, &limits);
    let _ = Reader::new(bytes, &limits).skip();
    let _ = Performative::read(&mut Reader::new(bytes, &limits));
    let _ = SaslFrame::read(&mut Reader::new(bytes, &limits));
    let _ = crate::request::Envelope::decode(bytes, &limits);
    if let Ok(message) = Message::parse(bytes.clone(), &limits) {
        let _ = message.properties(&limits);
        let _ = message.application_properties(&limits);
    }
}

/// A valid frame with a few bytes changed reaches further into the decoder than random ones do.
fn mutated() -> impl Strategy<Value = Bytes> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (any_performative(), changes).prop_map(|(performative, changes)| {
        let mut bytes = encoded_performative(&performative).to_vec();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.into()
    })
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail_by_name(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        decode_as_everything(&bytes.into());
    }

    /// Bytes that mean something more often: descriptors and format codes.
    #[test]
    fn likely_bytes_decode_or_fail_by_name(
        bytes in prop::collection::vec(
            prop::sample::select(vec![
                0x00, 0x53, 0x40, 0x45, 0xc0, 0xc1, 0xe0, 0xd0, 0xd1, 0xf0, 0xa0, 0xa1, 0xa3,
                0x70, 0x72, 0x73, 0x74, 0x75, 0x77, 0x01, 0x02, 0x05, 0x08, 0x12, 0x14, 0x1d,
            ]),
            0..60,
        )
    ) {
        decode_as_everything(&bytes.into());
    }

    #[test]
    fn changed_frames_decode_or_fail_by_name(bytes in mutated()) {
        decode_as_everything(&bytes);
    }

    /// What can be read can be written and read again.
    #[test]
    fn what_decodes_is_stable(bytes in mutated()) {
        if let Ok(first) = performative(&bytes) {
            let again = encoded_performative(&first);
            let second = performative(&again).unwrap();
            prop_assert_eq!(encoded_performative(&second), again);
        }
    }
}

/// For as long as `MAYFLY_FUZZ_MS` says, 200 by default.
#[test]
fn fuzz_bytes_for_a_while() {
    let budget = std::env::var("MAYFLY_FUZZ_MS").ok().and_then(|ms| ms.parse().ok());
    let until = Instant::now() + Duration::from_millis(budget.unwrap_or(200));
    let config = ProptestConfig::default();
    let seed = std::process::id().to_be_bytes().repeat(8);
    let rng = TestRng::from_seed(config.rng_algorithm, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let bytes = mutated();
    while Instant::now() < until {
        let bytes = bytes.new_tree(&mut runner).expect("bytes").current();
        let result = std::panic::catch_unwind(|| decode_as_everything(&bytes));
        assert!(result.is_ok(), "{bytes:02x?}");
    }
}
