//! The worker: one alert after the other, slower than the bursts, and helpless with the poison.

use std::sync::Arc;
use std::time::Duration;

use client::{Client, ReceiverOptions};

use super::alert::POISON;
use super::ledger::Ledger;

/// Few ahead: what waits here is locked, and no other could have it (LOCK-25).
const PREFETCH: u32 = 4;

/// Works until it is aborted.
pub async fn work(client: Client, queue: String, takes: Duration, ledger: Arc<Ledger>) {
    let options = ReceiverOptions { prefetch: PREFETCH, ..ReceiverOptions::default() };
    let mut receiver = client.receiver(queue, options);
    loop {
        let delivery = match receiver.recv().await {
            Ok(delivery) => delivery,
            Err(error) => {
                ledger.problem(format!("receive: {error}"));
                if matches!(error, client::Error::Refused(_)) {
                    return;
                }
                continue;
            }
        };
        let Some(id) = delivery.message_id().map(str::to_owned) else { continue };
        ledger.delivered(&id, &delivery);
        tokio::time::sleep(takes).await;
        if id == POISON {
            // Told before it is done: the next delivery may be faster than the answer.
            ledger.given_up(&id);
            if let Err(error) = receiver.abandon(&delivery).await {
                ledger.problem(format!("abandon: {error}"));
            }
            continue;
        }
        let settling = receiver.complete(&delivery);
        let ledger = ledger.clone();
        tokio::spawn(async move {
            ledger.completed(&id, settling.await);
        });
    }
}
