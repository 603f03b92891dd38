//! What came of an input.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A digest of what came of an input: equal for what took the same way through the code, most likely.
#[derive(Debug, Default)]
pub struct Answer(DefaultHasher);

impl Answer {
    pub(crate) fn of_feeding(feed: fn(&[u8], &mut Answer), input: &[u8]) -> u64 {
        let mut answer = Answer::default();
        feed(input, &mut answer);
        answer.0.finish()
    }

    /// Notes of what kind something was: a discriminant, a flag.
    pub fn kind(&mut self, kind: &impl Hash) {
        kind.hash(&mut self.0);
    }

    /// Notes an error's words without its numbers.
    pub fn words(&mut self, words: &str) {
        let words = words.bytes().filter(|byte| !byte.is_ascii_digit()).take(60);
        words.for_each(|byte| byte.hash(&mut self.0));
    }

    /// What was read; an error is noted.
    pub fn of<T, E: ToString>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.words(&error.to_string());
                None
            }
        }
    }
}
