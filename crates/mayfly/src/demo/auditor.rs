//! The auditor: takes every alert out of the dead-letter queue as it arrives there, and notes when
//! and why. The time between a deadline and its arrival here bounds how late expiry was.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use client::v1::SubQueue;
use client::{Client, ReceiverOptions};

use super::ledger::Ledger;

/// Collects until it is aborted.
pub async fn collect(client: Client, queue: String, ledger: Arc<Ledger>) {
    let options = ReceiverOptions {
        sub_queue: SubQueue::DeadLetter,
        prefetch: 500,
        ..ReceiverOptions::default()
    };
    let offset_ms = client.now().await.map_or(0, |now| now.offset_ms);
    let mut receiver = client.receiver(queue, options);
    loop {
        match receiver.recv().await {
            Ok(delivery) => {
                let seen_at_ms = wall_ms() + offset_ms;
                if let Some(id) = delivery.message_id() {
                    ledger.dead_lettered(id, &delivery, seen_at_ms);
                }
                // Not waited for: if it fails, the alert comes again and is known.
                drop(receiver.complete(&delivery));
            }
            Err(error) => {
                ledger.problem(format!("receive from the dead-letter queue: {error}"));
                if matches!(error, client::Error::Refused(_)) {
                    return;
                }
            }
        }
    }
}

/// This machine's clock, which the nodes' clocks follow.
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
