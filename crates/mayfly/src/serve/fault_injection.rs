//! A disk that behaves badly, for experiments: what `--lose-unsynced` and `--sync-delay-file` do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use store::Durability;

use super::config::FaultInjection;
use crate::input::duration;

/// How soon a change of the file shows.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A node must still be able to end.
const DELAY_MAX: Duration = Duration::from_secs(60);

/// Before the databases are opened: loses what a power failure would have taken.
pub fn lose(
    data: &Path,
    durability: Durability,
    fault_injection: &FaultInjection,
) -> Result<(), store::Error> {
    let Some(seed) = fault_injection.lose_unsynced else { return Ok(()) };
    let lost = store::lose_unsynced(data, durability, seed)?;
    let marks = if lost.marks { ", and its mark file" } else { "" };
    tracing::warn!(
        "an experiment: as after a power failure, the log lost {} of {} bytes that were not synced{marks}",
        lost.bytes,
        lost.unsynced_bytes
    );
    Ok(())
}

/// How long each sync takes longer, in milliseconds: what the file says, while it is there. Needs a
/// runtime.
pub fn sync_delay_ms(fault_injection: &FaultInjection) -> Option<Arc<AtomicU64>> {
    let path = fault_injection.sync_delay_file.clone()?;
    let delay_ms = Arc::new(AtomicU64::new(0));
    tokio::spawn(follow(path, delay_ms.clone()));
    Some(delay_ms)
}

async fn follow(path: PathBuf, delay_ms: Arc<AtomicU64>) {
    let mut read = String::new();
    loop {
        let text = tokio::fs::read_to_string(&path).await.unwrap_or_default();
        if text != read {
            let wanted_ms = parse(&text);
            delay_ms.store(wanted_ms, Ordering::Relaxed);
            tracing::warn!("an experiment: each sync takes {wanted_ms} ms longer");
            read = text;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// No delay where the text is empty. What is no duration is told, and counts as none.
fn parse(text: &str) -> u64 {
    if text.trim().is_empty() {
        return 0;
    }
    match duration::parse(text) {
        Ok(delay) => delay.min(DELAY_MAX).as_millis() as u64,
        Err(told) => {
            tracing::warn!("--sync-delay-file: {told}");
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_delay_lasts_while_the_file_says_so() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("delay");
        let fault_injection =
            FaultInjection { sync_delay_file: Some(path.clone()), ..FaultInjection::default() };
        let delay_ms = sync_delay_ms(&fault_injection).expect("there is a file to follow");
        let becomes = async |wanted_ms| {
            while delay_ms.load(Ordering::Relaxed) != wanted_ms {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        for (text, wanted_ms) in [("250ms\n", 250), ("2s", 2000), ("2", 0), ("1h", 60_000)] {
            std::fs::write(&path, text).expect("written");
            let followed = tokio::time::timeout(Duration::from_secs(10), becomes(wanted_ms)).await;
            assert!(followed.is_ok(), "{text}");
        }
        std::fs::remove_file(&path).expect("removed");
        tokio::time::timeout(Duration::from_secs(10), becomes(0)).await.expect("it is over");
        assert!(sync_delay_ms(&FaultInjection::default()).is_none());
    }
}
