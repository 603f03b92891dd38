//! What is encoded decodes to itself.

use proptest::prelude::*;

use super::arbitrary::{performative as any_performative, sasl, value};
use super::*;

proptest! {
    #[test]
    fn values(value in value()) {
        prop_assert_eq!(Value::parse(&encoded(&value), &Limits::default()), Ok(value));
    }

    #[test]
    fn skipping_a_value_ends_where_decoding_it_does(value in value()) {
        let bytes = encoded(&value);
        let mut reader = Reader::new(&bytes, &Limits::default());
        reader.skip().unwrap();
        prop_assert_eq!(reader.left(), 0);
    }

    #[test]
    fn performatives(performative in any_performative()) {
        let bytes = encoded_performative(&performative);
        prop_assert_eq!(super::performative(&bytes), Ok(performative));
    }

    #[test]
    fn sasl_frames(sasl in sasl()) {
        let mut out = BytesMut::new();
        sasl.write(&mut out);
        let bytes = out.freeze();
        prop_assert_eq!(SaslFrame::read(&mut Reader::new(&bytes, &Limits::default())), Ok(sasl));
    }
}

/// CONN-5: missing fields at the end, explicit nulls, any integer width and both descriptor forms.
#[test]
fn conn_5_lenient_forms_are_the_same_frame() {
    let expected = Performative::Detach(Detach { handle: 1, closed: true, error: None });
    let forms = [
        "005316 c004 02 5201 41",
        "005316 c005 03 5201 41 40",
        "005316 d0 00000008 00000002 5201 5601",
        "00800000000000000016 c007 02 7000000001 41",
        "005316 c00b 02 80 0000000000000001 41",
        "005316 c005 02 600001 41",
        "00a310 616d71703a6465746163683a6c697374 c004 02 5201 41",
    ]
    .map(unhex);
    for bytes in forms {
        assert_eq!(performative(&bytes), Ok(expected.clone()), "{bytes:02x?}");
    }
    // Required fields are required.
    let missing = DecodeError::Missing { composite: "detach", field: "handle" };
    assert_eq!(performative(&unhex("005316 45")), Err(missing));
    assert_eq!(performative(&unhex("005316 c002 01 40")), Err(missing));
}

/// Text and binaries are slices of what was decoded, not copies.
#[test]
fn decoding_copies_nothing() {
    let bytes = encoded(&Value::List(vec![
        Value::Binary(Bytes::from_static(b"binary")),
        Value::from("text"),
    ]));
    let value = Value::parse(&bytes, &Limits::default()).unwrap();
    let [Value::Binary(binary), Value::String(text)] = value.as_items().unwrap() else {
        panic!("{value:?}")
    };
    let range = bytes.as_ptr_range();
    assert!(range.contains(&binary.as_ptr()) && range.contains(&text.as_bytes().as_ptr()));
}

/// CONN-6, COND-5: descriptors in one byte, and no field of an error or of a frame left out, though it
/// says nothing; one symbol is an array of one.
#[test]
fn conn_6_cond_5_what_clients_read_by_position_is_written_in_full() {
    let error = Some(Error { condition: "a".into(), description: None, info: None });
    let detach = Performative::Detach(Detach { handle: 0, closed: true, error });
    let mut out = BytesMut::new();
    detach.write(&mut out);
    let (head, error) = out.split_at(out.len() - 11);
    assert_eq!(head[..3], unhex("005316"), "detach");
    assert_eq!(error, unhex("00531d c0 06 03 a30161 40 40"), "all three fields of an error");
    assert_eq!(encoded(&Symbols::from_iter([Symbol::from("a")])), unhex("e0 04 01 a3 01 61"));
}
