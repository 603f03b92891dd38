//! What a node keeps of its peers over its restarts: how much each had written, by which an old copy of a
//! directory is known.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::DataDir;
use tokio::time::sleep;
use tracing::warn;

use super::processes::ProcessRegistry;
use crate::blocking::run_blocking;

/// A write of the directory's file, and only where somebody wrote meanwhile. What is not noted yet when a node is killed
/// lets copies pass that are younger than this, if no other node lives that heard more.
const NOTED_EVERY: Duration = Duration::from_secs(60);

/// Clones share it.
#[derive(Clone)]
pub(crate) struct PeerNotes {
    pub registry: Arc<Mutex<ProcessRegistry>>,
    pub data: Option<DataDir>,
}

impl PeerNotes {
    /// Until the node ends.
    pub async fn run(self) {
        loop {
            sleep(NOTED_EVERY).await;
            self.write().await;
        }
    }

    pub async fn write(&self) {
        let Some(data) = self.data.clone() else { return };
        let written = self.registry.lock().written();
        if let Ok(Err(error)) = run_blocking(move || data.remember(written)).await {
            warn!(%error, "cannot note what peers have written; it is tried again");
        }
    }
}
