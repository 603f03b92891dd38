//! What is told of a limit that was reached.

use std::time::Duration;

use thiserror::Error;

use crate::limit::{Answer, Limit, Scope};

/// Nothing was done, as a limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}, {max}{}", limit.told(), setting(*limit))]
pub struct Exceeded {
    pub limit: Limit,
    /// In what the limit's name says.
    pub max: u64,
    /// After this it is worth another try; for what is answered with [`Answer::Full`] nobody knows.
    pub wait: Duration,
}

/// Where whoever runs the node finds it.
fn setting(limit: Limit) -> String {
    match limit.scope() {
        Scope::Protocol | Scope::Namespace => String::new(),
        Scope::Address | Scope::Key | Scope::Connection => {
            format!(" (limits.{})", limit.name())
        }
    }
}

impl Exceeded {
    /// Whole seconds to wait, one at least.
    pub fn wait_s(&self) -> u64 {
        self.wait.as_secs() + u64::from(self.wait.subsec_nanos() > 0 || self.wait.is_zero())
    }

    /// The sentence for clients, as Service Bus says it where there is one.
    pub fn sentence(&self) -> String {
        match self.limit.answer() {
            Answer::Full => self.to_string(),
            Answer::Busy | Answer::Wait => format!(
                "The request was terminated because the namespace is being throttled: {self}. Error code: \
                 50009. Please wait {} seconds and try again",
                self.wait_s()
            ),
        }
    }

    /// Its rule (ERR-10, ERR-11).
    pub fn rule(&self) -> &'static str {
        match self.limit.answer() {
            Answer::Full => "ERR-10",
            Answer::Busy | Answer::Wait => "ERR-11",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_11_what_is_told_names_the_setting_and_when_to_come_again() {
        for (wait_ms, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (60_000, 60)] {
            let wait = Duration::from_millis(wait_ms);
            let exceeded = Exceeded { limit: Limit::KeyRequests, max: 7, wait };
            assert_eq!(exceeded.wait_s(), seconds, "{wait_ms}");
            let told = exceeded.sentence();
            assert!(told.contains("may, 7 (limits.requests_per_second_per_key)"), "{told}");
            assert!(told.contains(&format!("50009. Please wait {seconds} seconds")), "{told}");
        }
        let wait = Duration::ZERO;
        let full = Exceeded { limit: Limit::Connections, max: 2, wait };
        assert_eq!(full.sentence(), "this node has as many connections as it may, 2");
        assert_eq!(full.rule(), "ERR-10");
    }
}
