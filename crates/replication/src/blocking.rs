//! Blocking work, done on threads where no task of the runtime waits behind it.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, spawn_blocking};

/// Does blocking work on a thread for such work. A runtime of one thread does it at once: there it is
/// a simulation's, whose disks answer without waiting, and a second thread would bring in chance.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Ok(work()),
        _ => spawn_blocking(work).await,
    }
}
