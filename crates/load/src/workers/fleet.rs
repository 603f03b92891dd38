//! The workers of a run as their coordinator reaches them: what is asked of each, and what all of them tell.

use std::fmt;
use std::time::{Duration, Instant};

use client::Trust;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use super::clock::ClockDifference;
use super::proof;
use crate::Error;
use crate::api::worker_event::Event;
use crate::api::worker_request::Request as Asked;
use crate::api::workers_client::WorkersClient;
use crate::api::{Finished, Sample, WorkerRequest};

/// Events that were told and not looked at; with more, workers wait.
const EVENTS_MAX: usize = 256;
/// Requests on their way to one worker: a run asks for few at a time, apart from files of bodies.
const REQUESTS_MAX: usize = 64;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A worker that hangs is noticed after two of these.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// Where workers are, and what proves that they are this coordinator's.
pub struct WorkerAddresses {
    /// `host:port`, with `http://` or `https://` before it or without.
    pub addresses: Vec<String>,
    pub secret: String,
    /// Who vouches for the certificates of workers that are reached over TLS.
    pub trust: Trust,
}

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
    pub async fn connect(of: &WorkerAddresses) -> Result<Fleet, Error> {
        let (tell, told) = mpsc::channel(EVENTS_MAX);
        let mut fleet = Fleet { members: Vec::new(), told, readers: JoinSet::new() };
        for (worker, address) in of.addresses.iter().enumerate() {
            let wrong = |told: String| Error::Wrong(format!("worker {address}: {told}"));
            let mut client = WorkersClient::new(channel(address, of).await.map_err(wrong)?);
            let (requests, asked) = mpsc::channel(REQUESTS_MAX);
            let mut request = Request::new(ReceiverStream::new(asked));
            if let Ok(proof) = proof::proof(&of.secret).parse() {
                request.metadata_mut().insert("authorization", proof);
            }
            let opened = timeout(CONNECT_WITHIN, client.run(request)).await;
            let opened = opened.map_err(|_| wrong("it does not answer".to_owned()))?;
            let mut events =
                opened.map_err(|status| wrong(refusal(address, &status)))?.into_inner();
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
                        Err(status) => Err(reason(&status)),
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

async fn channel(address: &str, of: &WorkerAddresses) -> Result<Channel, String> {
    let url =
        if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let endpoint = Endpoint::from_shared(url).map_err(|_| "it is no HOST:PORT".to_owned())?;
    let mut endpoint = endpoint
        .connect_timeout(CONNECT_WITHIN)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true);
    if endpoint.uri().scheme_str() == Some("https") {
        let host = endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let tls = ClientTlsConfig::new().domain_name(host);
        let tls = match &of.trust {
            Trust::System => tls.with_native_roots(),
            Trust::Authorities(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
        };
        endpoint = endpoint.tls_config(tls).map_err(|error| deepest(&error))?;
    }
    endpoint.connect().await.map_err(|error| format!("it does not answer: {}", deepest(&error)))
}

/// What lies at the bottom of an error.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    deepest.to_string()
}

/// Why a worker takes no run.
fn refusal(address: &str, status: &Status) -> String {
    let is_plain = !address.starts_with("https://");
    match std::error::Error::source(status) {
        Some(cause) if is_plain => format!(
            "it does not answer: {}; where it was started with --tls-cert, write https:// before it",
            deepest(cause)
        ),
        _ => reason(status),
    }
}

/// What a worker said; where it is gone, that it is.
fn reason(status: &Status) -> String {
    // What was made up here for a connection that broke has a cause.
    match std::error::Error::source(status) {
        Some(cause) => format!("it is gone: {}", deepest(cause)),
        None if status.code() == Code::Unimplemented => "it is no worker of mayfly load".to_owned(),
        None => status.message().to_owned(),
    }
}
