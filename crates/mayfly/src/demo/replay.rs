//! The sender: every alert at its time.

use std::time::Instant;

use client::{Client, SenderOptions};
use tokio::task::JoinSet;

use super::alert::Alert;
use super::ledger::Ledger;
use std::sync::Arc;

/// Sends all alerts, and returns when every send is answered.
pub async fn replay(
    client: &Client,
    queue: &str,
    alerts: &[Alert],
    started: Instant,
    ledger: &Arc<Ledger>,
) -> anyhow::Result<()> {
    // Wide enough that the replay keeps its times while there is no leader.
    let options = SenderOptions { window: alerts.len().max(1), ..SenderOptions::default() };
    let sender = client.sender(queue, options);
    // Broker time and ours are one machine's; reminders need no better.
    let offset_ms = client.now().await?.offset_ms;
    let mut answers = JoinSet::new();
    for alert in alerts {
        tokio::time::sleep_until((started + alert.due).into()).await;
        let now_ms = super::auditor::wall_ms() + offset_ms;
        ledger.submitted(&alert.id);
        let asked = Instant::now();
        let sending = sender.submit(vec![super::message(alert, now_ms)]).await?;
        let (id, ledger) = (alert.id.clone(), ledger.clone());
        answers.spawn(async move {
            ledger.answered(&id, asked, sending.await.map(|_| ()));
        });
        while answers.try_join_next().is_some() {}
    }
    while answers.join_next().await.is_some() {}
    ledger.sends_done();
    sender.close().await;
    Ok(())
}
