//! Flags that one task sets and others wait for.

use tokio::sync::watch;

/// Waits until it holds, or whoever could set it is gone.
pub async fn holds(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|is_set| *is_set).await;
}
