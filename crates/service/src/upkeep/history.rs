//! Lets go of what was recorded of messages once it is too old.

use std::sync::Arc;
use std::time::Duration;

use crate::history::OwnHistory;

/// What is too old is told no more at once, and takes memory for so long.
const ROUND: Duration = Duration::from_secs(10);

/// Runs until the node ends.
pub(crate) async fn let_go_of_history(history: Arc<OwnHistory>) {
    loop {
        tokio::time::sleep(ROUND).await;
        let history = history.clone();
        // The node ends, and with it what it held.
        if tokio::task::spawn_blocking(move || history.let_go()).await.is_err() {
            return;
        }
    }
}
