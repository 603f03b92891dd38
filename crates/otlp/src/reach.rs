//! Whether a collector takes what it is sent, told to the log once when it no longer does, and once when it does again.

use crate::settings::Settings;

pub struct Reach {
    /// "the collector at … takes", and what.
    endpoint: String,
    what: &'static str,
    /// It did not take the last.
    is_away: bool,
}

impl Reach {
    pub fn of(settings: &Settings) -> Reach {
        let (endpoint, what) = (settings.endpoint.to_string(), settings.signal.name());
        Reach { endpoint, what, is_away: false }
    }

    /// `then`: what becomes of what it did not take.
    pub fn is_gone(&mut self, why: &str, then: &str) {
        if !std::mem::replace(&mut self.is_away, true) {
            let Reach { endpoint, what, .. } = self;
            tracing::warn!("the collector at {endpoint} takes no {what} ({why}): {then}");
        }
    }

    pub fn is_back(&mut self) {
        if std::mem::take(&mut self.is_away) {
            let Reach { endpoint, what, .. } = self;
            tracing::info!("the collector at {endpoint} takes {what} again");
        }
    }
}
