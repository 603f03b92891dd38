//! How long a message lives, as its producer wrote it.

use amqp_protocol::message::{Header, Properties, UnixMs};
use domain::Span;

/// TTL-8, TTL-27: what the header says, unless it says nothing, or all it can while the properties say
/// more.
pub(crate) fn own_ttl(header: &Header, properties: &Properties) -> Option<Span> {
    let short = header.ttl.filter(|ttl| *ttl > 0);
    let long = lifetime_ms(properties.absolute_expiry_time, properties.creation_time);
    let long = long.filter(|_| short.is_none_or(|ttl| ttl == u32::MAX));
    long.or(short.map(u64::from)).map(Span)
}

/// TTL-27: an expiry without a creation time says nothing, nor do two that are the wrong way round.
fn lifetime_ms(expiry: Option<UnixMs>, creation: Option<UnixMs>) -> Option<u64> {
    let ms = expiry?.0.checked_sub(creation?.0).and_then(|ms| u64::try_from(ms).ok());
    ms.filter(|ms| *ms > 0)
}
