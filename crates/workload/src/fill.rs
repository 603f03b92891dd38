//! Filling queues as fast as they take it.

use std::sync::atomic::{AtomicU64, Ordering};

use client::{Client, Message, SenderOptions};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::report::Errors;

const FILLERS: u64 = 4;
const WINDOW: usize = 2048;
/// Messages in one request.
const BATCH: u64 = 100;

/// What the fillers of one bench have done.
#[derive(Default)]
pub(crate) struct Fill {
    sent: AtomicU64,
    pub errors: Errors,
}

/// How many messages each filler is to send.
pub(crate) fn shares(messages: u64) -> impl Iterator<Item = u64> {
    (0..FILLERS).map(move |index| messages / FILLERS + u64::from(index < messages % FILLERS))
}

impl Fill {
    /// Messages acknowledged so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends one filler's share, and returns when all of it is answered, or once nobody has answered
    /// for as long as the client is patient: what is open then is an error.
    pub async fn run(
        &self,
        client: Client,
        queue: String,
        share: u64,
        mut message: impl FnMut() -> Message,
    ) {
        let options = SenderOptions { window: WINDOW, ..SenderOptions::default() };
        let sender = client.sender(queue, options);
        let mut answers = FuturesUnordered::new();
        // Of the share: not handed over, and not answered.
        let (mut left, mut open) = (share, share);
        while open > 0 {
            let answered = if left > 0 {
                let count = left.min(BATCH);
                left -= count;
                match sender.submit((0..count).map(|_| message()).collect()).await {
                    Ok(sending) => answers.push(sending.map(move |answer| (answer, count))),
                    Err(error) => return self.errors.count(&error, open),
                }
                answers.next().now_or_never().flatten()
            } else {
                answers.next().await
            };
            let Some((answer, count)) = answered else { continue };
            match answer {
                Ok(_) => drop(self.sent.fetch_add(count, Ordering::Relaxed)),
                Err(error @ client::Error::Refused(_)) => self.errors.count(&error, count),
                Err(error) => {
                    self.errors.count(&error, open - left);
                    if left > 0 {
                        self.errors.count_named("not done", left);
                    }
                    return;
                }
            }
            open -= count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_even_and_together_everything() {
        for messages in [0, 1, 7, 200_000, 200_003] {
            let shares: Vec<u64> = shares(messages).collect();
            assert_eq!(shares.iter().sum::<u64>(), messages);
            assert!(shares.iter().all(|share| share.abs_diff(messages / FILLERS) <= 1));
        }
    }
}
