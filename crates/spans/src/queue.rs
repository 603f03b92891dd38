//! Steps on their way to the exporter. Whoever applies entries hands them over, and goes on.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use domain::TracedStep;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::account;
use crate::metric::{self, Dropped};

/// Steps that wait, each some hundred bytes: seconds of all that a node does at its limit, if every sender were
/// traced. What finds no place is dropped.
const STEPS_WAITING_MAX: usize = 16 * 1024;

/// A step, and when it was durable: nanoseconds since the Unix epoch by this node's clock.
pub(crate) struct AppliedStep {
    pub step: TracedStep,
    pub applied_at_ns: u64,
}

/// Takes steps for an exporter; clones lead to the same one.
#[derive(Clone)]
pub struct SpanQueue {
    steps: Sender<AppliedStep>,
}

impl SpanQueue {
    pub(crate) fn new() -> (SpanQueue, Receiver<AppliedStep>) {
        let (steps, waiting) = mpsc::channel(STEPS_WAITING_MAX);
        (SpanQueue { steps }, waiting)
    }

    /// Tells steps that are durable by now. Waits for nothing.
    pub fn tell(&self, steps: Vec<TracedStep>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let applied_at_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        for step in steps {
            if let Err(unsent) = self.steps.try_send(AppliedStep { step, applied_at_ns }) {
                metric::dropped(Dropped::Full, account::spans(&unsent.into_inner()).len());
            }
        }
    }
}

impl fmt::Debug for SpanQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.steps.max_capacity() - self.steps.capacity();
        f.debug_struct("SpanQueue").field("waiting", &waiting).finish()
    }
}
