//! Whether anybody listens where a peer did. A connection that is refused was answered by the peer's machine:
//! it is there, and no process listens on the port.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::Status;

use crate::Dialler;
use crate::runs::Runs;

/// Refused this often in a row, nobody listens: an address that just passes to another machine is none.
const KNOCKS: u32 = 3;
const KNOCK_EVERY: Duration = Duration::from_millis(50);
/// No answer is none: the peer may be cut off.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// Knocks at one peer's port, one round at a time.
#[derive(Clone)]
pub(crate) struct Knock {
    node: u64,
    address: String,
    dialler: Option<Arc<dyn Dialler>>,
    runs: Arc<Runs>,
    is_knocking: Arc<AtomicBool>,
}

impl Knock {
    /// `runs` is told when nobody listens.
    pub fn new(
        node: u64,
        address: String,
        dialler: Option<Arc<dyn Dialler>>,
        runs: Arc<Runs>,
    ) -> Knock {
        Knock { node, address, dialler, runs, is_knocking: Arc::default() }
    }

    /// A call failed: if its connection was refused, this looks whether that stays so.
    pub fn if_refused(&self, status: &Status) {
        if is_refused(status) {
            self.look();
        }
    }

    /// Looks whether nobody listens, which takes a moment. Needs a runtime.
    pub fn look(&self) {
        if self.runs.is_gone(self.node) || self.is_knocking.swap(true, Ordering::AcqRel) {
            return;
        }
        let knock = self.clone();
        tokio::spawn(async move {
            if knock.is_nobody_there().await {
                knock.runs.miss(knock.node);
            }
            knock.is_knocking.store(false, Ordering::Release);
        });
    }

    async fn is_nobody_there(&self) -> bool {
        for _ in 0..KNOCKS {
            sleep(KNOCK_EVERY).await;
            let answer = timeout(ANSWER_MAX, self.connect()).await;
            match answer {
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => (),
                Ok(Ok(()) | Err(_)) | Err(_) => return false,
            }
        }
        true
    }

    async fn connect(&self) -> io::Result<()> {
        match &self.dialler {
            Some(dialler) => dialler.connect(self.node, self.address.clone()).await.map(drop),
            None => TcpStream::connect(&self.address).await.map(drop),
        }
    }
}

/// Whether a call failed because the peer's machine refused the connection.
fn is_refused(status: &Status) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        cause = error.source();
    }
    false
}
