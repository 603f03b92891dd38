//! Lock tokens on the wire: a uuid in requests, in network order, and the same as a delivery tag, in
//! the order .NET keeps a GUID in (SETTLE-2).

use amqp_protocol::codec::Tag;
use domain::LockToken;

/// The tag of a delivery under this lock.
pub fn tag(token: LockToken) -> Tag {
    Tag::from(swap(token.to_bytes()))
}

/// `None` if the tag is not 16 bytes long: no lock has such a one.
pub fn from_tag(tag: &Tag) -> Option<LockToken> {
    let bytes: [u8; 16] = tag.as_bytes().try_into().ok()?;
    Some(LockToken::from_bytes(swap(bytes)))
}

/// As an AMQP uuid.
pub fn uuid(token: LockToken) -> [u8; 16] {
    token.to_bytes()
}

pub fn from_uuid(uuid: [u8; 16]) -> LockToken {
    LockToken::from_bytes(uuid)
}

/// Between the two orders: a GUID's first three fields, of 4, 2 and 2 bytes, are turned around.
fn swap(mut guid: [u8; 16]) -> [u8; 16] {
    guid[..4].reverse();
    guid[4..6].reverse();
    guid[6..8].reverse();
    guid
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SETTLE-2: 00112233-4455-6677-8899-aabbccddeeff.
    #[test]
    fn settle_2_a_tag_is_the_guid_as_dotnet_keeps_it() {
        let guid: [u8; 16] = std::array::from_fn(|i| i as u8 * 0x11);
        let token = from_uuid(guid);
        let expected = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].map(|i| i * 0x11u8);
        assert_eq!(tag(token).as_bytes(), expected);
        assert_eq!((from_tag(&tag(token)), uuid(token)), (Some(token), guid));
        assert_eq!(from_tag(&Tag::new(b"short").unwrap()), None);
    }
}
