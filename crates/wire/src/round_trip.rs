//! What was encoded decodes to an equal value; what was not ours decodes to an error or, by chance,
//! to some value, and in no case to a panic.

use bytes::Bytes;
use domain::{Command, Delivery, Key, Outcome, Properties, Refusal};
use proptest::prelude::*;

use crate::{Codec, arbitrary, content, decode_entry, decode_row, encode_entry, encode_row};

proptest! {
    #[test]
    fn entries(entry in arbitrary::entry()) {
        let bytes = encode_entry(&entry);
        prop_assert_eq!(decode_entry(bytes).unwrap(), entry);
    }

    #[test]
    fn rows((key, row) in arbitrary::row()) {
        prop_assert_eq!(decode_row(&key, &encode_row(&row)).unwrap(), row);
    }

    #[test]
    fn outcomes(outcome in arbitrary::outcome()) {
        prop_assert_eq!(Outcome::decode(&outcome.encode()).unwrap(), outcome);
    }

    #[test]
    fn refusals_and_deliveries(refusal in arbitrary::refusal(), delivery in arbitrary::delivery()) {
        prop_assert_eq!(Refusal::decode(&refusal.encode()).unwrap(), refusal);
        prop_assert_eq!(Delivery::decode(&delivery.encode()).unwrap(), delivery);
    }

    /// A torn write or a truncated frame is never taken for a whole one.
    #[test]
    fn a_shortened_entry_is_an_error(entry in arbitrary::entry(), cut in any::<prop::sample::Index>()) {
        let bytes = encode_entry(&entry);
        prop_assert!(decode_entry(bytes.slice(..cut.index(bytes.len()))).is_err());
    }

    #[test]
    fn a_damaged_entry_does_not_panic(
        entry in arbitrary::entry(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = encode_entry(&entry).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode_entry(bytes.into());
    }

    #[test]
    fn garbage_does_not_panic(
        garbage in prop::collection::vec(any::<u8>(), 0..200),
        (key, _) in arbitrary::row(),
    ) {
        let formatted = |format: u8| Bytes::from([&[format][..], &garbage].concat());
        let _ = decode_entry(formatted(1));
        let _ = decode_row(&key, &formatted(1));
        let _ = content::decode(formatted(1));
        let _ = Outcome::decode(&garbage.clone().into());
        let _ = Command::decode(&garbage.clone().into());
        prop_assert!(decode_entry(formatted(0)).is_err());
        prop_assert!(decode_entry(formatted(2)).is_err());
        prop_assert!(content::decode(formatted(2)).is_err());
    }
}

/// A count or length that the input cannot hold is refused before anything is reserved for it.
#[test]
fn a_huge_length_reserves_nothing() {
    let huge: &'static [u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let bytes = Bytes::from_static(huge);
    assert!(Vec::<Command>::decode(&bytes).is_err());
    assert!(Properties::decode(&bytes).is_err());
    assert!(String::decode(&bytes).is_err());
    assert!(Bytes::decode(&bytes).is_err());
    let key = Key::Group(domain::GroupId(1));
    assert!(decode_row(&key, &[&[1], huge].concat()).is_err());
}

#[test]
fn an_entry_shares_its_contents_with_its_bytes() {
    let message = crate::v1::Message { body: Bytes::from(vec![7; 100]), ..Default::default() };
    let entry = domain::Entry {
        at: domain::Timestamp(1),
        seed: [0; 16],
        commands: vec![Command::Send(domain::Send {
            origin: None,
            entity: domain::EntityId(1),
            messages: vec![content::new_message(message).unwrap()],
        })],
    };
    let bytes = encode_entry(&entry);
    let decoded = decode_entry(bytes.clone()).unwrap();
    let Command::Send(send) = &decoded.commands[0] else { panic!("a send") };
    assert!(bytes.as_ptr_range().contains(&send.messages[0].content.as_ptr()));
}
