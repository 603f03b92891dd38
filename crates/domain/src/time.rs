//! Instants and spans, in milliseconds (TIME-6).

/// Milliseconds since the Unix epoch, stamped by the group's leader when it proposes (TIME-4). It
/// has no `now()` on purpose: the domain meets time only inside a log entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub const ZERO: Timestamp = Timestamp(0);
    /// Never reached. Shown to clients as 9999-12-31T23:59:59.9999999Z (TTL-5).
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// This instant and a span, saturating at `NEVER` (TTL-5).
    pub fn plus(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }

    /// The span since `earlier`, zero if that is later.
    pub fn since(self, earlier: Timestamp) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    pub fn is_never(self) -> bool {
        self == Timestamp::NEVER
    }
}

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// "Never": what clients write as P10675199DT2H48M5.4775807S.
    pub const MAX: Span = Span(u64::MAX);

    pub const fn from_secs(seconds: u64) -> Span {
        Span(seconds.saturating_mul(1000))
    }

    pub fn is_max(self) -> bool {
        self == Span::MAX
    }
}
