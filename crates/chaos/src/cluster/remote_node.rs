//! A node on another machine, by the agent that started it.

use std::time::Duration;

use remote::Places;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::Error;
use crate::agent::{AUDIENCE, NO_AGENT, VERSION};
use crate::api::agent_event::Event;
use crate::api::agent_request::Request as Asked;
use crate::api::agents_client::AgentsClient;
use crate::api::{
    AgentEvent, AgentRequest, DelaySyncs, EndNode, Greet, HealLinks, SetCondition, Signal,
    SignalNode, StartNode,
};
use crate::proxy::Condition;

/// For an agent to take the experiment on.
const ATTACH_WITHIN: Duration = Duration::from_secs(5);
/// For one request: a node may take a while to end in good order.
const DONE_WITHIN: Duration = Duration::from_secs(30);

/// What an agent does is done when a call returns.
pub struct RemoteNode {
    /// Its number in the cluster.
    pub node: u64,
    /// The agent's.
    address: String,
    line: Mutex<Line>,
}

/// One request at a time.
struct Line {
    requests: mpsc::Sender<AgentRequest>,
    events: Streaming<AgentEvent>,
    last: u64,
    /// What the agent told beside what it was asked.
    deaths: Vec<String>,
}

impl RemoteNode {
    /// Has an agent take part in this experiment.
    ///
    /// # Errors
    /// It is not there, is busy, or does not take the secret: in one sentence.
    pub async fn attach(agents: &Places, address: &str) -> Result<RemoteNode, String> {
        let mut client = AgentsClient::new(agents.connect(address).await?);
        let (requests, asked) = mpsc::channel(1);
        let request = agents.proven(AUDIENCE, ReceiverStream::new(asked));
        let attached = timeout(ATTACH_WITHIN, client.attach(request)).await;
        let attached = attached.map_err(|_| "it does not answer".to_owned())?;
        let events = attached.map_err(|status| remote::refusal(address, &status, NO_AGENT))?;
        let mut line = Line { requests, events: events.into_inner(), last: 0, deaths: Vec::new() };
        let greeting = line.ask(Asked::Greet(Greet { version: VERSION.to_owned() }));
        let greeted = timeout(ATTACH_WITHIN, greeting).await;
        let node = greeted.map_err(|_| "it does not answer".to_owned())??;
        if node == 0 {
            return Err("its node has no number yet; let it join its cluster first".to_owned());
        }
        Ok(RemoteNode { node, address: address.to_owned(), line: Mutex::new(line) })
    }

    async fn ask(&self, asked: Asked) -> Result<(), Error> {
        let done = async { self.line.lock().await.ask(asked).await };
        let done = timeout(DONE_WITHIN, done).await;
        let done = done.unwrap_or_else(|_| Err(format!("it has not answered for {DONE_WITHIN:?}")));
        let failed = |told| Error::Cluster(format!("agent {}: {told}", self.address));
        done.map(drop).map_err(failed)
    }

    async fn signal(&self, signal: Signal) -> Result<(), Error> {
        self.ask(Asked::Signal(SignalNode { signal: signal.into() })).await
    }

    /// `kill -9`, and waits until it is gone.
    pub async fn kill(&self) -> Result<(), Error> {
        self.signal(Signal::Kill).await
    }

    /// `SIGSTOP`.
    pub async fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::Stop).await
    }

    /// `SIGCONT`.
    pub async fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::Continue).await
    }

    /// `SIGTERM`, and waits until it has ended in good order.
    pub async fn stop(&self) -> Result<(), Error> {
        self.ask(Asked::End(EndNode {})).await
    }

    /// Starts it, unless it runs.
    pub async fn start(&self, flags: &[String]) -> Result<(), Error> {
        self.ask(Asked::Start(StartNode { flags: flags.to_vec() })).await
    }

    /// Makes each sync of its log take so much longer, from now on.
    pub async fn delay_syncs(&self, delay: Duration) -> Result<(), Error> {
        self.ask(Asked::DelaySyncs(DelaySyncs { delay_ms: delay.as_millis() as u64 })).await
    }

    /// Sets how one direction is of the connections that the node has opened to the one at this address.
    pub async fn condition(
        &self,
        address: &str,
        is_outward: bool,
        condition: Condition,
    ) -> Result<(), Error> {
        let Condition { cut, delay, jitter, loss, bytes_per_second, harms_snapshots: _ } =
            condition;
        let set = SetCondition {
            address: address.to_owned(),
            is_outward,
            cut,
            delay_us: delay.as_micros() as u64,
            jitter_us: jitter.as_micros() as u64,
            loss,
            bytes_per_second: bytes_per_second.unwrap_or_default(),
        };
        self.ask(Asked::SetCondition(set)).await
    }

    /// All directions are as they should be.
    pub async fn heal(&self) -> Result<(), Error> {
        self.ask(Asked::Heal(HealLinks {})).await
    }

    /// How often the node ended though nobody asked it to, and what was told of it; known as of the last request.
    pub async fn take_deaths(&self) -> Vec<String> {
        std::mem::take(&mut self.line.lock().await.deaths)
    }
}

impl Line {
    /// Asks, and waits until that is done; the number of the node, where that was asked.
    async fn ask(&mut self, asked: Asked) -> Result<u64, String> {
        self.last += 1;
        let request = AgentRequest { number: self.last, request: Some(asked) };
        // One that is gone is told of by what it says.
        let _ = self.requests.send(request).await;
        loop {
            let event = self.events.message().await;
            let event = event.map_err(|status| remote::gone(&status, NO_AGENT))?;
            let event = event.ok_or_else(|| "it has ended the experiment".to_owned())?;
            match event.event {
                Some(Event::Greeted(greeted)) if greeted.number == self.last => {
                    return Ok(greeted.node);
                }
                Some(Event::Done(done)) if done.number == self.last => {
                    return match done.why_not.is_empty() {
                        true => Ok(0),
                        false => Err(done.why_not),
                    };
                }
                Some(Event::Died(died)) => self.deaths.push(died.told),
                // Of a request that was given up.
                Some(Event::Greeted(_) | Event::Done(_)) | None => (),
            }
        }
    }
}
