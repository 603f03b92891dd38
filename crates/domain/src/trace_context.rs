//! Where a sender's trace goes on: W3C Trace Context, as a message brings it among its properties.

use std::fmt;

use crate::QueueId;

/// Properties that hold a `traceparent`, in the order in which they are looked for: the standard's name, and what
/// the SDKs of Azure wrote before it was one.
pub const TRACEPARENT: [&str; 2] = ["traceparent", "Diagnostic-Id"];
/// What vendors say of the trace beside it.
pub const TRACESTATE: &str = "tracestate";
/// A longer `tracestate` is left out; 512 bytes are what everyone has to carry.
const TRACESTATE_BYTES_MAX: usize = 512;

/// A trace, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceId(pub [u8; 16]);

/// A span of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanId(pub [u8; 8]);

/// What its sender's trace is, of a message whose sender wants it told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: TraceId,
    /// Of the sender, which the message comes under.
    pub parent: SpanId,
    pub state: Option<Box<str>>,
}

/// Of a message that came by forwarding: by what shipment, and at which place in it. The source knows it by the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub source: QueueId,
    pub serial: u64,
    pub position: u32,
}

/// Reads it of a content; of one whose sender is not sampled, or that cannot be read, nothing.
pub type ReadTraceContext = fn(&bytes::Bytes) -> Option<TraceContext>;

impl TraceContext {
    /// Of the two properties' values. Nothing where the first is malformed or says that the trace is not sampled.
    pub fn sampled(traceparent: &str, tracestate: Option<&str>) -> Option<TraceContext> {
        const VERSION_0_BYTES: usize = 55;
        const SAMPLED: u8 = 1;
        let (known, more) = traceparent.split_at_checked(VERSION_0_BYTES)?;
        let mut parts = known.split('-');
        let version = hex::<1>(parts.next()?)?;
        let trace = hex::<16>(parts.next()?).filter(|id| id.iter().any(|byte| *byte != 0))?;
        let parent = hex::<8>(parts.next()?).filter(|id| id.iter().any(|byte| *byte != 0))?;
        let [flags] = hex::<1>(parts.next()?)?;
        let fits = match version {
            [0] => more.is_empty(),
            [0xff] => false,
            // What a later version says more stands behind another dash.
            _ => more.is_empty() || more.starts_with('-'),
        };
        let state = tracestate.filter(|state| {
            !state.is_empty() && state.len() <= TRACESTATE_BYTES_MAX && state.is_ascii()
        });
        (fits && parts.next().is_none() && flags & SAMPLED != 0).then(|| TraceContext {
            trace: TraceId(trace),
            parent: SpanId(parent),
            state: state.map(Into::into),
        })
    }
}

/// Digits of lower case only, as the standard has them.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut bytes = [0; N];
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sampled_trace_that_is_well_formed_is_one() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let parent = "b7ad6b7169203331";
        for (text, taken) in [
            (format!("00-{trace}-{parent}-01"), true),
            (format!("00-{trace}-{parent}-03"), true),
            (format!("00-{trace}-{parent}-00"), false),
            (format!("00-{trace}-{parent}-02"), false),
            (format!("00-{trace}-{parent}-01-more"), false),
            (format!("cc-{trace}-{parent}-01-more"), true),
            (format!("cc-{trace}-{parent}-01.more"), false),
            (format!("cc-{trace}-{parent}-01"), true),
            (format!("ff-{trace}-{parent}-01"), false),
            (format!("00-{}-{parent}-01", trace.to_uppercase()), false),
            (format!("00-{}-{parent}-01", "0".repeat(32)), false),
            (format!("00-{trace}-{}-01", "0".repeat(16)), false),
            (format!("00-{trace}-{parent}-0"), false),
            (format!("00-{trace}{parent}--01"), false),
            (format!("00-{trace}-{parent}-0é"), false),
            ("é".repeat(40), false),
            (String::new(), false),
        ] {
            let context = TraceContext::sampled(&text, None);
            assert_eq!(context.is_some(), taken, "{text}");
            if let Some(context) = context {
                assert_eq!((context.trace.to_string(), context.parent.to_string()), {
                    (trace.to_owned(), parent.to_owned())
                });
            }
        }
    }

    #[test]
    fn of_vendors_words_so_much_is_kept_as_everyone_carries() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let long = "x".repeat(513);
        for (state, kept) in
            [("a=1,b=2", Some("a=1,b=2")), ("", None), (long.as_str(), None), ("a=é", None)]
        {
            let context = TraceContext::sampled(parent, Some(state)).unwrap();
            assert_eq!(context.state.as_deref(), kept);
        }
    }
}
