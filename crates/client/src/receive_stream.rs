//! The task behind a [`crate::Receiver`]: keeps the broker supplied with credit, hands deliveries
//! over, and carries settlements, several under way at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::calls::Shared;
use crate::link::{End, Persistence, Vigil};
use crate::{Delivery, Disposition, Error, QueuePath, ReceiverOptions, v1};

/// Most settlements in one request.
const SETTLEMENTS_MAX: usize = 1000;
/// Settlements that wait with the task, by the application's calls; as many again wait on their way to
/// it, and more are refused as not done. No more credit is granted meanwhile: whoever settles what
/// it received once never gets there.
pub(crate) const SETTLES_WAITING_MAX: usize = 16 * 1024;
/// How long the end of a stream that wants no more is waited for: what was granted arrives in it.
const FAREWELL: Duration = Duration::from_millis(500);

/// What the application asks of the task.
pub(crate) enum Command {
    Settle(Settle),
    /// The application took deliveries: credit may be due.
    Taken,
    /// The application wants no more, and has never seen these.
    Close {
        untaken: Vec<v1::Settlement>,
    },
}

/// Settlements the application handed over as one.
pub(crate) struct Settle {
    pub settlements: Vec<v1::Settlement>,
    /// Refusals by lock token.
    pub answer: oneshot::Sender<Vec<(Bytes, Error)>>,
}

impl Settle {
    /// By the client itself: nobody waits for the answer.
    fn unasked(settlements: Vec<v1::Settlement>) -> Option<Settle> {
        let (answer, _) = oneshot::channel();
        (!settlements.is_empty()).then_some(Settle { settlements, answer })
    }

    /// All of them came to this.
    pub fn fail(self, error: Error) {
        let tokens = self.settlements.into_iter().map(|settlement| settlement.lock_token);
        // The application may have lost interest; so below.
        let _ = self.answer.send(tokens.map(|token| (token, error.clone())).collect());
    }

    fn resolve(self, failures: &BTreeMap<Bytes, Error>) {
        let refused = self.settlements.into_iter().filter_map(|settlement| {
            let error = failures.get(&settlement.lock_token)?.clone();
            Some((settlement.lock_token, error))
        });
        let _ = self.answer.send(refused.collect());
    }
}

/// The session a task receives from.
pub(crate) enum Session {
    /// To be accepted: whoever waits for that is told.
    Wanted {
        wanted: v1::AcceptSession,
        accepted: oneshot::Sender<Result<v1::AcceptedSession, Error>>,
    },
    Held(v1::SessionToken),
}

pub(crate) struct ReceivingTask {
    shared: Arc<Shared>,
    path: QueuePath,
    options: ReceiverOptions,
    session: Option<Session>,
    arrived: mpsc::Sender<Result<Delivery, Error>>,
    commands: mpsc::Receiver<Command>,
    taken: Arc<AtomicU32>,
    /// Credit the broker has not used yet, and deliveries the application has not taken yet;
    /// together at most the prefetch.
    credit: u32,
    untaken: u32,
    waiting: VecDeque<Settle>,
    /// By their ids, which ascend: when they were sent, and what is in them.
    unanswered: BTreeMap<u64, (Instant, Vec<Settle>)>,
    settle_id: u64,
    closing: bool,
    /// Settlements being asked about again after their stream broke.
    asking: JoinSet<()>,
    persistence: Persistence,
}

impl ReceivingTask {
    pub fn new(
        shared: Arc<Shared>,
        path: QueuePath,
        options: ReceiverOptions,
        session: Option<Session>,
        arrived: mpsc::Sender<Result<Delivery, Error>>,
        commands: mpsc::Receiver<Command>,
        taken: Arc<AtomicU32>,
    ) -> ReceivingTask {
        let persistence = Persistence::new(shared.nodes.options().give_up_after);
        ReceivingTask {
            shared,
            path,
            options: ReceiverOptions { requests_max: options.requests_max.max(1), ..options },
            session,
            arrived,
            commands,
            taken,
            credit: 0,
            untaken: 0,
            waiting: VecDeque::new(),
            unanswered: BTreeMap::new(),
            settle_id: 0,
            closing: false,
            asking: JoinSet::new(),
            persistence,
        }
    }

    pub async fn run(mut self) {
        loop {
            let turn = self.shared.nodes.proof.turn();
            let end = self.converse().await.judged(&self.shared.nodes.proof, turn);
            // What this stream had not answered is asked about by itself; what it had not used of
            // its credit is void.
            let unanswered = std::mem::take(&mut self.unanswered);
            let unanswered = unanswered.into_values().flat_map(|(_, settles)| settles);
            self.ask_again(unanswered.collect(), true);
            self.credit = 0;
            match end {
                End::Finished => break,
                End::Refused(error) => {
                    self.end_with(error);
                    break;
                }
                // A session cannot go on elsewhere: what was on its way would be overtaken.
                End::Broken(error) if matches!(self.session, Some(Session::Held(_))) => {
                    self.shared.routes.forget_leaders();
                    self.end_with(error);
                    break;
                }
                End::Broken(error) => {
                    tracing::debug!(queue = self.path.queue, %error, "receive stream broke");
                    self.shared.routes.forget_leaders();
                    if !self.persistence.pause().await {
                        if self.session.is_some() {
                            self.end_with(error);
                            break;
                        }
                        self.tell(error);
                    }
                    self.collect();
                }
            }
            if self.closing {
                break;
            }
        }
        self.finish().await;
    }

    /// The last word to the application.
    fn end_with(&mut self, error: Error) {
        match self.session.take() {
            Some(Session::Wanted { accepted, .. }) => drop(accepted.send(Err(error))),
            held => {
                self.session = held;
                let _ = self.arrived.try_send(Err(error)); // There is always a place for a last word.
            }
        }
    }

    /// Tells the application of an outage, unless it has yet to hear of the one before.
    fn tell(&mut self, error: Error) {
        self.count_taken();
        let waiting = self.arrived.max_capacity() - self.arrived.capacity();
        if waiting <= self.untaken as usize {
            let _ = self.arrived.try_send(Err(error));
        }
    }

    /// Settles by single calls what no stream carries any more. A session is given back after that:
    /// the stream's end has done so, unless it broke.
    async fn finish(mut self) {
        self.collect();
        self.commands.close();
        let mut rest: Vec<Settle> = self.waiting.drain(..).collect();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Settle(settle) => rest.push(settle),
                Command::Close { untaken } => rest.extend(Settle::unasked(untaken)),
                Command::Taken => (),
            }
        }
        self.ask_again(rest, false);
        while self.asking.join_next().await.is_some() {}
        if let Some(Session::Held(token)) = self.session {
            // Refused where it was given back already; where nobody answers, its lock lapses.
            let _ = self.shared.release_session(&self.path.queue, &token).await;
        }
    }

    async fn converse(&mut self) -> End {
        let leader = self.shared.routes.leader(&self.shared.nodes, &self.path.queue).await;
        let Some(node) = self.shared.nodes.order(leader).into_iter().next() else {
            return End::Broken(Error::not_done("no node is known"));
        };
        let turn = match node.turn_to_open().await {
            Ok(turn) => turn,
            Err(error) => return End::Broken(error),
        };
        // Holds the opening, one grant of credit and what may be unanswered.
        let (requests, outgoing) = mpsc::channel(self.options.requests_max + 4);
        let open = v1::ReceiveOpen {
            queue: self.path.queue.clone(),
            sub_queue: self.path.sub_queue as i32,
            mode: self.options.mode as i32,
            accept_session: match &self.session {
                Some(Session::Wanted { wanted, .. }) => Some(wanted.clone()),
                Some(Session::Held(_)) | None => None,
            },
        };
        let request =
            v1::ReceiveStreamRequest { open: Some(open), ..v1::ReceiveStreamRequest::default() };
        let _ = requests.try_send(request);
        self.dispatch(&requests);

        let mut api = node.messaging();
        let call = api.receive_stream(node.request(ReceiverStream::new(outgoing)));
        let patience = self.shared.nodes.options().attempt_timeout;
        let mut answers = match node.attempt(patience, call).await {
            Ok(answer) => answer.into_inner(),
            Err(error) => return End::from_error(error),
        };
        drop(turn);
        let end = self.exchange(&mut answers, &requests).await;
        match &end {
            End::Broken(_) => node.note_failure(),
            End::Finished => {
                drop(requests);
                // Elapsed: what was still granted waits for its lock to lapse.
                let _ = tokio::time::timeout(FAREWELL, self.farewell(&mut answers)).await;
            }
            End::Refused(_) => (),
        }
        end
    }

    async fn exchange(
        &mut self,
        answers: &mut Streaming<v1::ReceiveStreamResponse>,
        requests: &mpsc::Sender<v1::ReceiveStreamRequest>,
    ) -> End {
        let mut vigil = Vigil::new(self.shared.nodes.options().attempt_timeout);
        loop {
            if self.closing && self.waiting.is_empty() && self.unanswered.is_empty() {
                return End::Finished;
            }
            let oldest_at = self.unanswered.values().next().map(|(sent_at, _)| *sent_at);
            tokio::select! {
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => self.answered(answer),
                    Ok(None) => {
                        return End::Broken(Error::perhaps_done("the node closed the stream"));
                    }
                    Err(status) => return End::of(status),
                },
                command = self.commands.recv(), if self.takes_commands() => self.take(command),
                Some(_) = self.asking.join_next() => (),
                silence = vigil.overdue(oldest_at) => return End::Broken(silence),
            }
            self.collect();
            self.dispatch(requests);
        }
    }

    fn take(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Settle(settle)) => self.waiting.push_back(settle),
            Some(Command::Taken) => (),
            Some(Command::Close { untaken }) => {
                self.waiting.extend(Settle::unasked(untaken));
                self.closing = true;
            }
            None => self.closing = true,
        }
    }

    fn takes_commands(&self) -> bool {
        !self.closing && self.waiting.len() < SETTLES_WAITING_MAX
    }

    /// Takes all commands at hand, as far as there is room for what they ask.
    fn collect(&mut self) {
        while self.takes_commands() {
            match self.commands.try_recv() {
                Ok(command) => self.take(Some(command)),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => self.closing = true,
            }
        }
    }

    fn answered(&mut self, answer: v1::ReceiveStreamResponse) {
        self.persistence.progressed();
        if let Some(accepted) = answer.accepted {
            self.accepted(accepted);
        }
        let count = answer.messages.len() as u32;
        self.credit = self.credit.saturating_sub(count);
        self.untaken += count;
        for received in answer.messages {
            // Nobody takes it; or the node has sent more than the credit it was given.
            if let Err(unwanted) = self.arrived.try_send(Ok(Delivery::from(received)))
                && let Ok(delivery) = unwanted.into_inner()
            {
                self.release(delivery);
            }
        }
        for settled in answer.settled {
            self.settled(settled);
        }
    }

    /// SESS-8. Whoever asked may have lost interest: then it goes back.
    fn accepted(&mut self, answer: v1::AcceptedSession) {
        let token = answer.token.clone().unwrap_or_default();
        if let Some(Session::Wanted { accepted, .. }) = self.session.replace(Session::Held(token))
            && accepted.send(Ok(answer)).is_err()
        {
            self.closing = true;
        }
    }

    fn settled(&mut self, settled: v1::Settled) {
        let Some((_, settles)) = self.unanswered.remove(&settled.settle_id) else { return };
        let failures: BTreeMap<Bytes, Error> = settled
            .failures
            .into_iter()
            .map(|failure| (failure.lock_token, Error::from(failure.failure.unwrap_or_default())))
            .collect();
        if failures.is_empty() {
            for settle in settles {
                let _ = settle.answer.send(Vec::new());
            }
            return;
        }
        // Not refused, only not done here and now: asked again, and doubtful where it is.
        let (mut open, mut doubtful) = (Vec::new(), Vec::new());
        for settle in settles {
            let worst = settle.settlements.iter().filter_map(|one| failures.get(&one.lock_token));
            let mut again = false;
            let mut perhaps = false;
            for error in worst {
                again |= !matches!(error, Error::Refused(_));
                perhaps |= matches!(error, Error::PerhapsDone(_));
            }
            match (again, perhaps) {
                (false, _) => settle.resolve(&failures),
                (true, false) => open.push(settle),
                (true, true) => doubtful.push(settle),
            }
        }
        self.ask_again(open, false);
        self.ask_again(doubtful, true);
    }

    /// Sends what is due: credit for what was taken, and settlements while fewer than the most
    /// requests are under way.
    fn dispatch(&mut self, requests: &mpsc::Sender<v1::ReceiveStreamRequest>) {
        self.count_taken();
        while !self.waiting.is_empty() && self.unanswered.len() < self.options.requests_max {
            let credit = self.grant(1);
            let settles = self.gather();
            let settlements =
                settles.iter().flat_map(|settle| settle.settlements.iter().cloned()).collect();
            self.settle_id += 1;
            self.unanswered.insert(self.settle_id, (Instant::now(), settles));
            let settle_id = self.settle_id;
            // Cannot be full, see `converse`; where the stream has ended, it is asked about later.
            let _ = requests.try_send(v1::ReceiveStreamRequest {
                open: None,
                credit,
                settlements,
                settle_id,
            });
        }
        // Without company, credit goes out by the quarter, and only when the last has gone.
        if requests.capacity() > self.options.requests_max {
            let credit = self.grant((self.options.prefetch / 4).max(1));
            if credit > 0 {
                let _ =
                    requests.try_send(v1::ReceiveStreamRequest { credit, ..Default::default() });
            }
        }
    }

    fn count_taken(&mut self) {
        self.untaken = self.untaken.saturating_sub(self.taken.swap(0, Ordering::Relaxed));
    }

    /// Credit to grant now, if at least so much is due.
    fn grant(&mut self, least: u32) -> u32 {
        let due = self.options.prefetch.saturating_sub(self.credit + self.untaken);
        let waits = matches!(self.session, Some(Session::Wanted { .. }));
        if !self.takes_commands() || waits || due < least {
            return 0;
        }
        self.credit += due;
        due
    }

    fn gather(&mut self) -> Vec<Settle> {
        let mut settles = Vec::new();
        let mut count = 0;
        while let Some(next) = self.waiting.front() {
            if !settles.is_empty() && count + next.settlements.len() > SETTLEMENTS_MAX {
                break;
            }
            count += next.settlements.len();
            settles.extend(self.waiting.pop_front());
        }
        settles
    }

    /// Settles by single calls, which carry an origin and find a node by themselves.
    fn ask_again(&mut self, mut settles: Vec<Settle>, doubtful: bool) {
        while !settles.is_empty() {
            let mut count = 0;
            let fit = settles.iter().take_while(|settle| {
                count += settle.settlements.len();
                count <= SETTLEMENTS_MAX
            });
            let rest = settles.split_off(fit.count().max(1));
            let batch = std::mem::replace(&mut settles, rest);
            self.asking.spawn(ask(self.shared.clone(), self.path.clone(), batch, doubtful));
        }
    }

    fn release(&mut self, delivery: Delivery) {
        if delivery.wire().lock_token.is_some() {
            let settlements = vec![Disposition::Release.of(delivery.lock_token())];
            self.waiting.extend(Settle::unasked(settlements));
        }
    }

    /// Reads to the stream's end: what was granted and still arrives goes back.
    async fn farewell(&mut self, answers: &mut Streaming<v1::ReceiveStreamResponse>) {
        while let Ok(Some(answer)) = answers.message().await {
            for received in answer.messages {
                self.release(Delivery::from(received));
            }
        }
    }
}

async fn ask(shared: Arc<Shared>, path: QueuePath, settles: Vec<Settle>, doubtful: bool) {
    let settlements: Vec<v1::Settlement> =
        settles.iter().flat_map(|settle| settle.settlements.iter().cloned()).collect();
    match shared.settle(&path, &settlements, false, doubtful).await {
        Ok(failures) => {
            let failures = failures
                .into_iter()
                .map(|one| (one.lock_token, Error::from(one.failure.unwrap_or_default())))
                .collect();
            for settle in settles {
                settle.resolve(&failures);
            }
        }
        Err(error) => {
            let error = if doubtful { error.into_perhaps_done() } else { error };
            for settle in settles {
                settle.fail(error.clone());
            }
        }
    }
}
