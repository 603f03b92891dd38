//! A message's id as text.

use amqp_protocol::codec::Value;

/// A message-id as text: clients write ulongs, uuids and binaries as well, and duplicates are found
/// by what they say (FORM-4). A binary that is no text counts as its hexadecimal digits.
pub fn id_text(id: &Value) -> Option<String> {
    match id {
        Value::String(text) => Some(text.to_string()),
        Value::Symbol(text) => Some(text.to_string()),
        Value::Uuid(bytes) => Some(uuid_text(bytes)),
        Value::Binary(bytes) => Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => hex(bytes),
        }),
        Value::Ulong(number) => Some(number.to_string()),
        other => other.as_i64().map(|number| number.to_string()),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    text.extend(digits.map(|digit| char::from(DIGITS[usize::from(digit)])));
    text
}

/// 8-4-4-4-12 digits, network order.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let digits = hex(bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}
