//! How an error is found again: what every front end puts behind its sentence.

use domain::Excerpt;

/// Where an error came about, for its text (ERR-27).
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    pub tracking_id: &'a str,
    /// Name of the entity, empty where none is concerned.
    pub entity: &'a str,
    /// UTC, as in `2026-11-21T08:30:00`.
    pub at: &'a str,
}

impl Trace<'_> {
    /// An error's text: one sentence, and how to find it again (COND-4).
    pub fn text(self, sentence: &str) -> String {
        let Trace { tracking_id, entity, at } = self;
        let period = if sentence.ends_with(['.', '!', '?']) { "" } else { "." };
        format!(
            "{sentence}{period} TrackingId:{tracking_id}, SystemTracker:{}, Timestamp:{at}",
            Excerpt(entity)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_27_cond_4_an_error_says_how_to_find_it_again() {
        let trace = Trace { tracking_id: "T", entity: "q", at: "2026-01-01T00:00:00" };
        let expected = "too large. TrackingId:T, SystemTracker:q, Timestamp:2026-01-01T00:00:00";
        assert_eq!(trace.text("too large"), expected);
    }
}
