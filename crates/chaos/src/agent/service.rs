//! What an agent does for an experiment, one at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::ward::Ward;
use super::{AUDIENCE, NodeNumber, VERSION};
use crate::api::agent_event::Event;
use crate::api::agent_request::Request as Asked;
use crate::api::agents_server::Agents;
use crate::api::{AgentEvent, AgentRequest, Done, Greeted, NodeDied};

/// Events on their way; with more the agent waits until the experiment reads.
const EVENTS_MAX: usize = 16;
/// An experiment that says nothing for so long at its beginning is let go.
const GREETED_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Service {
    pub secret: Option<String>,
    pub number: NodeNumber,
    pub ward: Arc<Mutex<Ward>>,
    /// Two experiments at a time would put right what the other does.
    pub turn: Arc<Mutex<()>>,
}

type Events = mpsc::Sender<Result<AgentEvent, Status>>;

#[tonic::async_trait]
impl Agents for Service {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<AgentEvent, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<AgentRequest>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        if let Some(secret) = &self.secret {
            remote::verify(AUDIENCE, secret, request.metadata())?;
        }
        let busy = |_| Status::failed_precondition("it is busy with another experiment");
        let turn = self.turn.clone().try_lock_owned().map_err(busy)?;
        let (events, told) = mpsc::channel(EVENTS_MAX);
        let session = Session {
            requests: request.into_inner(),
            events,
            ward: self.ward.clone(),
            number: self.number.clone(),
        };
        tokio::spawn(async move {
            session.run().await;
            drop(turn);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }
}

/// One experiment.
struct Session {
    requests: Streaming<AgentRequest>,
    events: Events,
    ward: Arc<Mutex<Ward>>,
    number: NodeNumber,
}

impl Session {
    /// To its end, after which the node is as it was.
    async fn run(mut self) {
        let (deaths, mut died) = mpsc::channel(EVENTS_MAX);
        self.ward.lock().await.attach(deaths);
        let events = self.events.clone();
        let ended = tokio::select! {
            ended = self.serve(&mut died) => ended,
            // The experiment has gone.
            () = events.closed() => Ok(()),
        };
        let put_right = self.ward.lock().await.detach();
        let failed = |error: crate::Error| Status::internal(error.to_string());
        if let Err(status) = ended.and(put_right.map_err(failed)) {
            // Nobody may be left to hear it.
            let _ = events.send(Err(status)).await;
        }
    }

    async fn serve(&mut self, died: &mut mpsc::Receiver<String>) -> Result<(), Status> {
        self.greet().await?;
        loop {
            tokio::select! {
                asked = self.requests.message() => {
                    let Some(AgentRequest { number, request: Some(asked) }) = asked? else {
                        return Ok(());
                    };
                    let done = self.ward.lock().await.act(asked).await;
                    let why_not = done.err().map(|error| error.to_string()).unwrap_or_default();
                    self.tell(Event::Done(Done { number, why_not })).await;
                }
                Some(told) = died.recv() => self.tell(Event::Died(NodeDied { told })).await,
            }
        }
    }

    async fn greet(&mut self) -> Result<(), Status> {
        let first = timeout(GREETED_WITHIN, self.requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("nothing was asked"))??;
        let Some(AgentRequest { number, request: Some(Asked::Greet(greet)) }) = first else {
            return Err(Status::failed_precondition("it was not greeted"));
        };
        if greet.version != VERSION {
            let told = format!(
                "it is of version {VERSION}, and the experiment of {}; use one on both sides",
                greet.version
            );
            return Err(Status::failed_precondition(told));
        }
        let node = (self.number)().unwrap_or_default();
        self.tell(Event::Greeted(Greeted { number, node })).await;
        Ok(())
    }

    async fn tell(&self, event: Event) {
        // An experiment that has gone ends the session by itself.
        let _ = self.events.send(Ok(AgentEvent { event: Some(event) })).await;
    }
}
