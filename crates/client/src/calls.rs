//! One call, tried on node after node until one answers, the call is refused, or patience ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tonic::{Response, Status};

use crate::Error;
use crate::nodes::{Node, Nodes};
use crate::route::Routes;
use crate::v1::{self, send_stream_response::Result as Answer};

/// Pause between rounds over all nodes: first, and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A producer this long without a request gives its place to another: groups forget producers after
/// 15 minutes (SEND-8).
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// What clones of a client share.
pub(crate) struct Shared {
    pub nodes: Nodes,
    pub routes: Routes,
    producers: Mutex<HashMap<String, Arc<Place>>>,
}

/// Where the producer to a queue is kept once its group knows it.
type Place = tokio::sync::Mutex<Option<Producer>>;

/// This client as a producer to one queue (SEND-8). Unordered: calls may overtake each other.
struct Producer {
    id: u64,
    serial_last: u64,
    used_at: Instant,
}

/// The id of a producer or a request: random and not zero.
pub(crate) fn draw_number() -> u64 {
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
        Shared { nodes, routes: Routes::new(), producers: Mutex::default() }
    }

    /// The next origin for a request to this queue. A producer's first is preceded by a greeting: a
    /// repeat of one the group does not know would be told "perhaps done", and nothing more. Fails
    /// as the request would.
    pub async fn origin(&self, queue: &str) -> Result<v1::Origin, Error> {
        let place = {
            let mut producers = self.producers.lock().unwrap_or_else(|poison| poison.into_inner());
            match producers.get(queue) {
                Some(place) => place.clone(),
                None => producers.entry(queue.to_owned()).or_default().clone(),
            }
        };
        let mut place = place.lock().await;
        let known = place.take().filter(|known| known.used_at.elapsed() < FORGOTTEN_AFTER);
        let mut producer = match known {
            Some(known) => known,
            None => self.greet(queue).await?,
        };
        producer.serial_last += 1;
        producer.used_at = Instant::now();
        let Producer { id, serial_last, .. } = *place.insert(producer);
        Ok(v1::Origin { producer: id, serial: serial_last, ordered: false, retry: false })
    }

    /// Makes a new producer known: its first request holds no message, so whether it was done does
    /// not matter, only that it was answered.
    async fn greet(&self, queue: &str) -> Result<Producer, Error> {
        let attempt = |node: Arc<Node>, _| {
            let producer = draw_number();
            let greeting = v1::SendStreamRequest {
                queue: queue.to_owned(),
                serial: 1,
                producer,
                ..v1::SendStreamRequest::default()
            };
            let request = node.request(tokio_stream::iter([greeting]));
            async move {
                let mut answers = node.messaging().send_stream(request).await?.into_inner();
                let answer = answers.message().await?.and_then(|answer| answer.result);
                match answer {
                    Some(Answer::Sent(_)) => Ok(Response::new(producer)),
                    // It is refused for its emptiness, and that is recorded.
                    Some(Answer::Failure(failure)) if failure.retry() == v1::Retry::No => {
                        Ok(Response::new(producer))
                    }
                    Some(Answer::Failure(failure)) => Err(Status::unavailable(failure.message)),
                    None => Err(Status::unavailable("the node closed the stream")),
                }
            }
        };
        let patience = self.nodes.options().attempt_timeout;
        match self.call(Repeat::Always, patience, attempt).await {
            Ok(id) => Ok(Producer { id, serial_last: 1, used_at: Instant::now() }),
            // What the greeting is for was not even begun.
            Err(Error::PerhapsDone(detail)) => Err(Error::NotDone(detail)),
            Err(error) => Err(error),
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
            let (mut asked, mut untrusted) = (0, 0);
            for node in self.nodes.order(None) {
                asked += 1;
                let turn = self.nodes.proof.turn();
                let answer = node.attempt(patience, attempt(node.clone(), doubtful)).await;
                match answer.map_err(|error| self.nodes.proof.judged(error, turn)) {
                    Ok(answer) => {
                        self.nodes.prefer(&node);
                        return Ok(answer.into_inner());
                    }
                    Err(error @ Error::Refused(_)) => return Err(error),
                    Err(error @ Error::NotDone(_)) => {
                        untrusted += usize::from(error.is_untrusted());
                        last = error;
                    }
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
            let none_is_trusted = asked > 0 && untrusted == asked;
            if none_is_trusted || started.elapsed() + pause >= give_up_after {
                // A last attempt that was certainly not done says nothing about the ones before.
                return Err(if doubtful { last.into_perhaps_done() } else { last });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
