//! Follows the broker's record while a run goes on: what it holds is bounded on the nodes.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use client::{HistoryGap, HistoryReader};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Error;
use crate::flag::holds;
use crate::lives::Lives;

/// Between two looks at the record.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// At the end, for nodes that are behind.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads the record now and then. Dropped, it stops.
pub struct Recorder {
    lives: Arc<Mutex<Lives>>,
    stop: watch::Sender<bool>,
    task: JoinSet<HistoryReader>,
}

impl Recorder {
    pub fn start(mut reader: HistoryReader) -> Recorder {
        let lives: Arc<Mutex<Lives>> = Arc::default();
        let (stop, mut stopped) = watch::channel(false);
        let mut task = JoinSet::new();
        let known = lives.clone();
        task.spawn(async move {
            loop {
                // Nodes that do not answer now do later, and a gap shows at the end.
                if let Ok(events) = reader.read().await {
                    lock(&known).extend(events);
                }
                if tokio::time::timeout(LOOK_EVERY, holds(&mut stopped)).await.is_ok() {
                    return reader;
                }
            }
        });
        Recorder { lives, stop, task }
    }

    /// What is known so far.
    pub fn lives(&self) -> MutexGuard<'_, Lives> {
        lock(&self.lives)
    }

    /// All that had happened when this was called, and what of it nobody has any more.
    ///
    /// # Errors
    /// The record is not all there in time.
    pub async fn finish(mut self) -> Result<(Lives, Vec<HistoryGap>), Error> {
        self.stop.send_replace(true);
        let reader = self.task.join_next().await.and_then(Result::ok);
        let mut reader =
            reader.ok_or_else(|| Error::Wrong("the record is not followed any more".to_owned()))?;
        let (events, gaps) = reader.read_to_end(PATIENCE).await?;
        let mut lives = std::mem::take(&mut *lock(&self.lives));
        lives.extend(events);
        Ok((lives, gaps))
    }
}

fn lock(lives: &Mutex<Lives>) -> MutexGuard<'_, Lives> {
    lives.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
