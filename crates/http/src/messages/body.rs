//! A message's body as the body of an answer.

use bytes::Bytes;
use message_content::{Plain, plain};
use wire::v1;

const TEXT: &str = "text/plain; charset=utf-8";

/// Body and content type, if one is known. What was sent as an AMQP value is shown as its text or its
/// bytes, if it is one; otherwise as the encoded sections.
pub(super) fn shown(message: &v1::Message) -> (Bytes, Option<String>) {
    let content_type = message.content_type.clone();
    if !message.amqp_sections {
        return (message.body.clone(), content_type);
    }
    match plain(&message.body) {
        Some(Plain::Text(text)) => (text.into(), content_type.or_else(|| Some(TEXT.to_owned()))),
        Some(Plain::Binary(bytes)) => (bytes, content_type),
        None => (message.body.clone(), content_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_6_an_amqp_text_is_shown_as_its_text() {
        // Descriptor 0x77 (amqp-value), then str8 of two bytes.
        let text = Bytes::from_static(&[0, 0x53, 0x77, 0xa1, 2, b'h', b'i']);
        let number = Bytes::from_static(&[0, 0x53, 0x77, 0x54, 7]);
        for (body, amqp_sections, expected, kind) in [
            (text.clone(), true, Bytes::from_static(b"hi"), Some(TEXT)),
            (text.clone(), false, text, None),
            (number.clone(), true, number, None),
            (Bytes::from_static(&[1, 2]), true, Bytes::from_static(&[1, 2]), None),
        ] {
            let message = v1::Message { body, amqp_sections, ..Default::default() };
            assert_eq!(shown(&message), (expected, kind.map(str::to_owned)));
        }
    }
}
