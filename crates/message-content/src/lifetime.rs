//! How long a message lives, as its producer wrote it.

use amqp_protocol::message::{Header, Properties, UnixMs};
use domain::{Refusal, Span};

/// TTL-8, TTL-27: what the header says, unless it says nothing, or all it can while the properties say
/// more. A header that says 0 is of a client whose span was cut to a whole number, of seconds for
/// example: what the properties say is meant.
///
/// # Errors
/// ERR-13 for a header that says 0 and properties that say no more.
pub(crate) fn own_ttl(header: &Header, properties: &Properties) -> Result<Option<Span>, Refusal> {
    let long = lifetime_ms(properties.absolute_expiry_time, properties.creation_time);
    match (header.ttl, long) {
        (None | Some(0 | u32::MAX), Some(long)) => Ok(Some(Span(long))),
        (Some(0), None) => Err(Refusal::ArgumentOutOfRange {
            what: "TimeToLive",
            value: "0".to_owned(),
            allowed: "more than 0",
        }),
        (short, _) => Ok(short.map(|ms| Span(ms.into()))),
    }
}

/// TTL-27: an expiry without a creation time says nothing, nor do two that are the wrong way round.
fn lifetime_ms(expiry: Option<UnixMs>, creation: Option<UnixMs>) -> Option<u64> {
    let ms = expiry?.0.checked_sub(creation?.0).and_then(|ms| u64::try_from(ms).ok());
    ms.filter(|ms| *ms > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row the header's span, the difference of the two instants, and the span that holds; `None`
    /// for what is refused.
    #[test]
    fn ttl_8_ttl_27_a_span_of_0_is_what_the_properties_say() {
        const MAX: u32 = u32::MAX;
        for (ttl, difference, holds) in [
            (None, None, Some(None)),
            (None, Some(5), Some(Some(5))),
            (None, Some(0), Some(None)),
            (Some(7), None, Some(Some(7))),
            (Some(7), Some(5), Some(Some(7))),
            (Some(0), Some(400), Some(Some(400))),
            (Some(0), Some(0), None),
            (Some(0), Some(-1), None),
            (Some(0), None, None),
            (Some(MAX), None, Some(Some(MAX.into()))),
            (Some(MAX), Some(1 << 40), Some(Some(1 << 40))),
        ] {
            let properties = Properties {
                absolute_expiry_time: difference.map(|ms: i64| UnixMs(1_000 + ms)),
                creation_time: difference.map(|_| UnixMs(1_000)),
                ..Properties::default()
            };
            let found = own_ttl(&Header { ttl, ..Header::default() }, &properties).ok();
            assert_eq!(found, holds.map(|ms| ms.map(Span)), "{ttl:?} {difference:?}");
        }
        let lone = Properties { absolute_expiry_time: Some(UnixMs(9)), ..Properties::default() };
        assert!(own_ttl(&Header { ttl: Some(0), ..Header::default() }, &lone).is_err());
    }
}
