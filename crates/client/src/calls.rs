//! One call, tried on node after node until one answers, the call is refused, or patience ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tonic::{Response, Status};

use crate::nodes::{Node, Nodes};
use crate::route::Routes;
use crate::{Error, v1};

/// Pause between rounds over all nodes: first, and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What clones of a client share.
pub(crate) struct Shared {
    pub nodes: Nodes,
    pub routes: Routes,
    producers: Mutex<HashMap<String, Arc<Producer>>>,
}

/// This client as a producer to one queue (SEND-8). Unordered: calls may overtake each other.
pub(crate) struct Producer {
    id: u64,
    serial_last: AtomicU64,
}

impl Producer {
    pub fn new() -> Producer {
        Producer { id: draw_producer(), serial_last: AtomicU64::new(0) }
    }

    /// The origin of the next request.
    pub fn origin(&self) -> v1::Origin {
        let serial = self.serial_last.fetch_add(1, Ordering::Relaxed) + 1;
        v1::Origin { producer: self.id, serial, ordered: false, retry: false }
    }
}

/// A producer id: random and not zero.
pub(crate) fn draw_producer() -> u64 {
    (uuid::Uuid::new_v4().as_u128() as u64).max(1)
}

/// Whether a call of unknown outcome may be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing, or carries an origin, or doing it twice is doing it once.
    Always,
    /// Only if it certainly was not done.
    IfNotDone,
}

impl Shared {
    pub fn new(nodes: Nodes) -> Shared {
        Shared { nodes, routes: Routes::default(), producers: Mutex::default() }
    }

    /// The next origin for a request to this queue.
    pub fn origin(&self, queue: &str) -> v1::Origin {
        let mut producers = self.producers.lock().unwrap_or_else(|poison| poison.into_inner());
        match producers.get(queue) {
            Some(producer) => producer.origin(),
            None => {
                let producer = Arc::new(Producer::new());
                producers.insert(queue.to_owned(), producer.clone());
                producer.origin()
            }
        }
    }

    /// Calls until there is an answer. The attempt is told whether the request may have been done
    /// before. `patience` is for one attempt.
    pub async fn call<T, F>(
        &self,
        repeat: Repeat,
        patience: Duration,
        mut attempt: impl FnMut(Arc<Node>, bool) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let started = Instant::now();
        let give_up_after = self.nodes.options().give_up_after.max(patience);
        let mut doubtful = false;
        let mut pause = PAUSE_FIRST;
        loop {
            let mut last = Error::not_done("no node is known");
            for node in self.nodes.order(None) {
                match node.attempt(patience, attempt(node.clone(), doubtful)).await {
                    Ok(answer) => {
                        self.nodes.prefer(&node);
                        return Ok(answer.into_inner());
                    }
                    Err(error @ Error::Refused(_)) => return Err(error),
                    Err(error @ Error::NotDone(_)) => last = error,
                    Err(error @ Error::PerhapsDone(_)) => {
                        if repeat == Repeat::IfNotDone || error.is_forgotten() {
                            return Err(error);
                        }
                        doubtful = true;
                        last = error;
                    }
                }
                if started.elapsed() >= give_up_after {
                    break;
                }
            }
            if started.elapsed() + pause >= give_up_after {
                // A last attempt that was certainly not done says nothing about the ones before.
                return Err(if doubtful { last.into_perhaps_done() } else { last });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
