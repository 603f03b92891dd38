//! The workers of a run as their coordinator reaches them: what is asked of each, and what all of them tell.

use std::fmt;
use std::time::{Duration, Instant};

use remote::Places;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::AUDIENCE;
use super::clock::ClockDifference;
use crate::Error;
use crate::api::worker_event::Event;
use crate::api::worker_request::Request as Asked;
use crate::api::workers_client::WorkersClient;
use crate::api::{Finished, Sample, WorkerRequest};

/// Events that were told and not looked at; with more, workers wait.
const EVENTS_MAX: usize = 256;
/// Requests on their way to one worker: a run asks for few at a time, apart from files of bodies.
const REQUESTS_MAX: usize = 64;
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// What is at an address where something else answers.
const NO_WORKER: &str = "no worker of mayfly load";

/// What a worker tells, and when it came.
pub(super) struct Told {
    pub worker: usize,
    pub at: Instant,
    pub what: Result<Event, String>,
}

/// One worker.
pub(super) struct Member {
    pub address: String,
    requests: mpsc::Sender<WorkerRequest>,
    pub cores: u32,
    pub clock: ClockDifference,
    /// As it was at the end.
    pub clock_after: Option<ClockDifference>,
    /// Its last.
    pub sample: Sample,
    pub is_sent: bool,
    pub finished: Option<Finished>,
    /// Why it is gone.
    pub lost: Option<String>,
}

impl Member {
    /// Asks something; of one that is gone, nothing comes.
    pub async fn ask(&self, asked: Asked) {
        let _ = self.requests.send(WorkerRequest { request: Some(asked) }).await;
    }

    pub fn is_there(&self) -> bool {
        self.lost.is_none()
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.address)
    }
}

/// All of them.
pub(super) struct Fleet {
    pub members: Vec<Member>,
    told: mpsc::Receiver<Told>,
    /// Each reads what one worker tells; they end with the fleet, and its streams with them.
    readers: JoinSet<()>,
}

impl Fleet {
    /// Connects to every worker and begins a run's stream with each.
    ///
    /// # Errors
    /// The first that is not there, is busy, or does not take the secret: in one sentence.
    pub async fn connect(of: &Places) -> Result<Fleet, Error> {
        let (tell, told) = mpsc::channel(EVENTS_MAX);
        let mut fleet = Fleet { members: Vec::new(), told, readers: JoinSet::new() };
        for (worker, address) in of.addresses.iter().enumerate() {
            let wrong = |told: String| Error::Wrong(format!("worker {address}: {told}"));
            let mut client = WorkersClient::new(of.connect(address).await.map_err(wrong)?);
            let (requests, asked) = mpsc::channel(REQUESTS_MAX);
            let request = of.proven(AUDIENCE, ReceiverStream::new(asked));
            let opened = timeout(OPEN_WITHIN, client.run(request)).await;
            let opened = opened.map_err(|_| wrong("it does not answer".to_owned()))?;
            let mut events = opened
                .map_err(|status| wrong(remote::refusal(address, &status, NO_WORKER)))?
                .into_inner();
            let tell = tell.clone();
            fleet.readers.spawn(async move {
                loop {
                    let next = events.message().await;
                    let at = Instant::now();
                    let what = match next {
                        Ok(Some(event)) => match event.event {
                            Some(event) => Ok(event),
                            None => continue,
                        },
                        Ok(None) => Err("it has ended the run".to_owned()),
                        Err(status) => Err(remote::gone(&status, NO_WORKER)),
                    };
                    let is_last = what.is_err();
                    if tell.send(Told { worker, at, what }).await.is_err() || is_last {
                        return;
                    }
                }
            });
            fleet.members.push(Member {
                address: address.clone(),
                requests,
                cores: 0,
                clock: ClockDifference::default(),
                clock_after: None,
                sample: Sample::default(),
                is_sent: false,
                finished: None,
                lost: None,
            });
        }
        Ok(fleet)
    }

    /// Asks everybody who is there.
    pub async fn ask_all(&self, asked: &Asked) {
        for member in self.members.iter().filter(|member| member.is_there()) {
            member.ask(asked.clone()).await;
        }
    }

    /// What is told next. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Told {
        match self.told.recv().await {
            Some(told) => told,
            // Every reader has ended, and has told so.
            None => std::future::pending().await,
        }
    }
}
