//! A worker: waits for a coordinator, does its part of one run at a time, and tells what it counts.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use remote::ServerTls;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::attachment::SentAttachments;
use super::{AUDIENCE, VERSION, clock, sample};
use crate::api::worker_event::Event;
use crate::api::worker_request::Request as Asked;
use crate::api::workers_server::{Workers, WorkersServer};
use crate::api::{Finished, LedgerPart, Open, Opened, Sent, WorkerEvent, WorkerRequest};
use crate::file::LoadFile;
use crate::plan::Part;
use crate::run::{Marks, Ready, Sampler, UnderWay};
use crate::target::TargetAddress;

/// Events on their way to the coordinator; with more the run waits until it reads.
const EVENTS_MAX: usize = 16;
/// A coordinator that says nothing for so long before its run has begun is let go.
const PATIENCE: Duration = Duration::from_secs(60);
const SAMPLES_EVERY: u32 = 5;
/// Workers of one run.
const WORKERS_MAX: u32 = 1000;

type Events = mpsc::Sender<Result<WorkerEvent, Status>>;

/// What takes part in runs of others.
pub struct Worker {
    /// Whoever does not know it is refused.
    pub secret: String,
    pub tls: Option<ServerTls>,
}

struct Service {
    secret: String,
    /// One run at a time.
    turn: Arc<Mutex<()>>,
}

impl Worker {
    /// Serves until `stop`; a run that goes on ends with it.
    ///
    /// # Errors
    /// A certificate or key that is none, in one sentence.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let service = Service { secret: self.secret, turn: Arc::default() };
        remote::serve(WorkersServer::new(service), self.tls, listener, stop).await
    }
}

#[tonic::async_trait]
impl Workers for Service {
    type RunStream = std::pin::Pin<Box<dyn Stream<Item = Result<WorkerEvent, Status>> + Send>>;

    async fn run(
        &self,
        request: Request<Streaming<WorkerRequest>>,
    ) -> Result<Response<Self::RunStream>, Status> {
        remote::verify(AUDIENCE, &self.secret, request.metadata())?;
        let turn = self.turn.clone().try_lock_owned();
        let turn = turn.map_err(|_| Status::failed_precondition("it is busy with another run"))?;
        let (events, told) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(take_part(request.into_inner(), events, turn));
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }
}

/// One run, to its end or to that of the stream.
async fn take_part(requests: Streaming<WorkerRequest>, events: Events, turn: OwnedMutexGuard<()>) {
    let ended = tokio::select! {
        ended = Assignment::take(requests, &events) => ended,
        // The coordinator has gone, and everything is let go.
        () = events.closed() => Ok(()),
    };
    drop(turn);
    if let Err(status) = ended {
        // Nobody may be left to hear it.
        let _ = events.send(Err(status)).await;
    }
}

/// A part in a run.
struct Assignment<'a> {
    requests: Streaming<WorkerRequest>,
    events: &'a Events,
}

impl Assignment<'_> {
    async fn take(requests: Streaming<WorkerRequest>, events: &Events) -> Result<(), Status> {
        let mut assignment = Assignment { requests, events };
        let ready = assignment.open().await?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        assignment.tell(Event::Opened(Opened { cores })).await;
        loop {
            match assignment.asked().await? {
                Asked::ReadClock(asked) => assignment.tell_clock(asked.number).await,
                Asked::Begin(begin) => {
                    let under_way = ready.begin(clock::instant(begin.epoch_ns));
                    return assignment.drive(under_way).await;
                }
                other => return Err(out_of_turn(&other)),
            }
        }
    }

    /// The next request, before the run has begun.
    async fn asked(&mut self) -> Result<Asked, Status> {
        let next = timeout(PATIENCE, self.requests.message()).await;
        let next = next.map_err(|_| Status::deadline_exceeded("nothing was asked for a minute"))?;
        next?.and_then(|request| request.request).ok_or_else(gone)
    }

    /// Reads what to do, and opens every link.
    async fn open(&mut self) -> Result<Ready, Status> {
        let mut attachments = SentAttachments::default();
        let open = loop {
            match self.asked().await? {
                Asked::Attachment(part) => attachments.take(part).map_err(Status::aborted)?,
                Asked::Open(open) => break open,
                other => return Err(out_of_turn(&other)),
            }
        };
        let Open { version, file_name, file, run, seconds, index, count, target } = open;
        if version != VERSION {
            return Err(Status::failed_precondition(format!(
                "it is of version {VERSION}, and the coordinator of {version}; use one on both sides"
            )));
        }
        if count > WORKERS_MAX || index >= count {
            return Err(Status::invalid_argument("it is to be a part that there is not"));
        }
        let file = LoadFile::parse_with(
            &file,
            &file_name,
            run,
            seconds,
            attachments.finish().map_err(Status::aborted)?,
        );
        let file = Arc::new(file.map_err(Status::invalid_argument)?);
        let target = TargetAddress::try_from(target.unwrap_or_default());
        let part = Part { index: index as usize, count: count as usize };
        let opened = async {
            let target = target.map_err(crate::Error::Wrong)?.open()?;
            Ready::open(&file, &target, part).await
        };
        opened.await.map_err(|error| Status::aborted(error.to_string()))
    }

    async fn drive(mut self, mut run: UnderWay) -> Result<(), Status> {
        let (line, meter) = (run.shared.time_line.clone(), run.shared.meter.clone());
        let mut marks = Marks::default();
        let mut is_sent = false;
        let mut ticks = interval(Sampler::TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut ticked = 0u32;
        loop {
            tokio::select! {
                asked = self.requests.message() => {
                    match asked?.and_then(|request| request.request).ok_or_else(gone)? {
                        Asked::ReadClock(asked) => self.tell_clock(asked.number).await,
                        Asked::Stop(stop) => line.stop_at(Duration::from_nanos(stop.at_ns)),
                        Asked::TakeDeadLetters(_) => run.take_dead_letters(),
                        Asked::TellLedger(_) => {
                            self.sample(&run).await;
                            self.tell_ledger(&run).await;
                        }
                        Asked::Finish(_) => break,
                        other => return Err(out_of_turn(&other)),
                    }
                }
                _ = ticks.tick() => {
                    let counts = meter.books().counts;
                    marks.look(&line, &counts);
                    ticked += 1;
                    if ticked.is_multiple_of(SAMPLES_EVERY) {
                        self.sample(&run).await;
                    }
                }
                joined = run.producers.join_next(), if !is_sent => {
                    let is_over = line.now() >= line.sending_ends();
                    if joined.is_none() && !is_over {
                        // Consumers alone, until time is up.
                        tokio::time::sleep(Sampler::TICK).await;
                    } else if run.producers.is_empty() && is_over {
                        is_sent = true;
                        self.sample(&run).await;
                        self.tell(Event::Sent(Sent {})).await;
                    }
                }
            }
        }
        run.consumers.shutdown().await;
        self.sample(&run).await;
        let finished = {
            let books = meter.books();
            let measured = marks.finish(&line, &books.counts);
            Finished {
                measured: sample::histograms(&books.measured()),
                measured_us: measured.lasted.as_micros() as u64,
                acknowledged: measured.acknowledged,
                delivered: measured.delivered,
                completed: measured.completed,
                cpu_us: measured.cpu.as_micros() as u64,
            }
        };
        self.tell(Event::Finished(finished)).await;
        Ok(())
    }

    async fn tell(&self, event: Event) {
        // A coordinator that has gone ends the run by itself.
        let _ = self.events.send(Ok(WorkerEvent { event: Some(event) })).await;
    }

    async fn tell_clock(&self, number: u64) {
        self.tell(Event::Clock(clock::read(number))).await;
    }

    async fn sample(&self, run: &UnderWay) {
        let sample = sample::take(&mut run.shared.meter.books());
        self.tell(Event::Sample(sample)).await;
    }

    async fn tell_ledger(&self, run: &UnderWay) {
        let parts: Vec<LedgerPart> = run.shared.ledger.parts().collect();
        for part in parts {
            self.tell(Event::Ledger(part)).await;
        }
        self.tell(Event::Ledger(LedgerPart { part: None, is_last: true })).await;
    }
}

fn gone() -> Status {
    Status::cancelled("the coordinator has gone")
}

fn out_of_turn(asked: &Asked) -> Status {
    let what = match asked {
        Asked::Attachment(_) => "attachment",
        Asked::Open(_) => "open",
        Asked::ReadClock(_) => "read_clock",
        Asked::Begin(_) => "begin",
        Asked::Stop(_) => "stop",
        Asked::TakeDeadLetters(_) => "take_dead_letters",
        Asked::TellLedger(_) => "tell_ledger",
        Asked::Finish(_) => "finish",
    };
    Status::failed_precondition(format!("'{what}' was asked out of turn"))
}
