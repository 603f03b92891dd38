//! The edge's end of a channel to another node: requests of all its clients for groups led there,
//! gathered into frames, and the answers taken apart again.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::{Command, EntityId, GroupId, QueueId, ReceiverId};
use parking_lot::Mutex;
use replication::{ChannelReceiver, ChannelSender, Replication};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::exchange::{
    Attach, CallResult, CutAnswer, CutRequest, Detached, Event, Failed, IdleReport, NodeReport,
    NotRead, Read, ReadResult, Sink, answered, release, release_session,
};
use crate::peer::frame::{self, Incoming};

/// Most requests looked at before a frame is sent.
const ITEMS_MAX: usize = 1024;

/// What waits to be written to another node. Calls, reads and attachments get half of the places, and
/// more of them are certainly not done; the other half is for receivers' words, which must not be lost:
/// where there is none left the link is given up, and its receivers attach anew. An edge's sends
/// together are bounded in bytes (`Config::sends_bytes_max`).
const OUTGOING_WAITING_MAX: usize = 128 * 1024;
const WORDS_RESERVED: usize = OUTGOING_WAITING_MAX / 2;

/// What an edge asks of another node.
pub(crate) enum Outgoing {
    Call { group: GroupId, command: Command, reply: oneshot::Sender<CallResult> },
    Read { group: GroupId, read: Read, reply: oneshot::Sender<ReadResult> },
    Attach { group: GroupId, attach: Attach },
    Credit { group: GroupId, receiver: ReceiverId, count: u32 },
    Drain { group: GroupId, receiver: ReceiverId },
    Detach { group: GroupId, receiver: ReceiverId },
    Report { reply: oneshot::Sender<NodeReport> },
    Idle { asked: Vec<EntityId>, reply: oneshot::Sender<IdleReport> },
    Transfer { group: GroupId, to: u64, reply: oneshot::Sender<Option<String>> },
    EndClaims { group: GroupId, transaction: u64 },
    Cut { group: GroupId, asked: CutRequest, reply: oneshot::Sender<CutAnswer> },
    Spend { spent: Vec<(String, u64)>, reply: oneshot::Sender<Vec<u64>> },
}

impl Outgoing {
    /// Whether whoever asks is answered if it is refused.
    fn is_refusable(&self) -> bool {
        match self {
            Outgoing::Call { .. }
            | Outgoing::Read { .. }
            | Outgoing::Attach { .. }
            | Outgoing::Report { .. }
            | Outgoing::Idle { .. }
            | Outgoing::Transfer { .. }
            | Outgoing::Cut { .. }
            | Outgoing::Spend { .. } => true,
            Outgoing::Credit { .. }
            | Outgoing::Drain { .. }
            | Outgoing::Detach { .. }
            | Outgoing::EndClaims { .. } => false,
        }
    }

    /// Answers what was never sent: it is certainly not done.
    pub fn fail(self) {
        match self {
            Outgoing::Call { command, reply, .. } => {
                drop(reply.send(Err(Failed::NotLeader { leader: None, command })));
            }
            Outgoing::Read { reply, .. } => drop(reply.send(Err(NotRead { leader: None }))),
            Outgoing::Attach { attach, .. } => {
                drop(attach.sink.send(attach.receiver, Event::Detached(Detached::LeaderLost)));
            }
            // Receivers hear of a lost link by their attachment; the others by a dropped reply.
            Outgoing::Credit { .. }
            | Outgoing::Drain { .. }
            | Outgoing::Detach { .. }
            | Outgoing::Report { .. }
            | Outgoing::Idle { .. }
            | Outgoing::Transfer { .. }
            | Outgoing::Cut { .. }
            | Outgoing::Spend { .. }
            // The leader forgets the transactions of a node that it lost.
            | Outgoing::EndClaims { .. } => (),
        }
    }
}

/// A link to one node, open or being opened. It ends with its channel, or when it is given up; the
/// next request opens another.
#[derive(Clone)]
pub(crate) struct Link {
    outgoing: mpsc::Sender<Outgoing>,
    state: Arc<State>,
}

/// What a link shares with the task that serves it.
#[derive(Default)]
struct State {
    waiting: Mutex<Waiting>,
    given_up: Notify,
}

impl Link {
    pub fn open(node: u64, replication: Replication) -> Link {
        let (outgoing, queue) = mpsc::channel(OUTGOING_WAITING_MAX);
        let link = Link { outgoing, state: Arc::default() };
        let own = link.outgoing.downgrade();
        tokio::spawn(run(node, replication, queue, own, link.state.clone()));
        link
    }

    pub fn is_open(&self) -> bool {
        !self.outgoing.is_closed()
    }

    pub fn send(&self, outgoing: Outgoing) {
        if outgoing.is_refusable() && self.outgoing.capacity() <= WORDS_RESERVED {
            return outgoing.fail();
        }
        match self.outgoing.try_send(outgoing) {
            Ok(()) => (),
            Err(TrySendError::Closed(lost)) => lost.fail(),
            // A word that is lost would leave its receiver waiting for ever.
            Err(TrySendError::Full(lost)) => {
                tracing::warn!("a node does not take what it is asked; its link is given up");
                self.give_up();
                lost.fail();
            }
        }
    }

    /// Whether the node still has to say what became of something it was asked as a group's leader, or
    /// did not even answer that it is there.
    pub fn owes(&self, group: GroupId) -> bool {
        let waiting = self.state.waiting.lock();
        !waiting.is_open || waiting.is_about(group)
    }

    /// Ends the link: what was sent is perhaps done.
    pub fn give_up(&self) {
        self.state.given_up.notify_one();
    }
}

async fn run(
    node: u64,
    replication: Replication,
    mut queue: mpsc::Receiver<Outgoing>,
    own: mpsc::WeakSender<Outgoing>,
    state: Arc<State>,
) {
    tokio::select! {
        () = connect(node, &replication, &mut queue, own, &state.waiting) => (),
        () = state.given_up.notified() => (),
    }
    std::mem::take(&mut *state.waiting.lock()).fail();
    queue.close();
    while let Some(outgoing) = queue.recv().await {
        outgoing.fail();
    }
}

/// Opens a channel and serves it to its end.
async fn connect(
    node: u64,
    replication: &Replication,
    queue: &mut mpsc::Receiver<Outgoing>,
    own: mpsc::WeakSender<Outgoing>,
    waiting: &Mutex<Waiting>,
) {
    let (sender, receiver) = match replication.open_channel(node).await {
        Ok(channel) => channel.split(),
        Err(error) => return tracing::debug!(node, %error, "no channel"),
    };
    waiting.lock().is_open = true;
    // Both directions in one task, each at its own pace: whichever ends, ends the link.
    tokio::select! {
        () = write(&sender, queue, waiting) => {}
        () = read(node, receiver, waiting, own) => {}
    }
}

/// What was sent and is not answered, and the receivers attached over this link.
#[derive(Default)]
struct Waiting {
    /// The node has answered that it is there.
    is_open: bool,
    last_id: u64,
    calls: HashMap<u64, (GroupId, Command, oneshot::Sender<CallResult>)>,
    reads: HashMap<u64, (GroupId, oneshot::Sender<ReadResult>)>,
    reports: HashMap<u64, oneshot::Sender<NodeReport>>,
    idle: HashMap<u64, oneshot::Sender<IdleReport>>,
    transfers: HashMap<u64, oneshot::Sender<Option<String>>>,
    cuts: HashMap<u64, oneshot::Sender<CutAnswer>>,
    spendings: HashMap<u64, oneshot::Sender<Vec<u64>>>,
    receivers: HashMap<ReceiverId, Attached>,
}

struct Attached {
    group: GroupId,
    queue: QueueId,
    sink: Sink,
}

async fn write(
    sender: &ChannelSender,
    queue: &mut mpsc::Receiver<Outgoing>,
    waiting: &Mutex<Waiting>,
) {
    let mut items = Vec::new();
    while queue.recv_many(&mut items, ITEMS_MAX).await > 0 {
        let mut items = items.drain(..);
        while items.len() > 0 {
            let mut out = Vec::with_capacity(16 * 1024);
            {
                let mut waiting = waiting.lock();
                while out.len() < frame::FRAME_BYTES_FULL
                    && let Some(item) = items.next()
                {
                    waiting.put(item, &mut out);
                }
            }
            if sender.send(Bytes::from(out)).await.is_err() {
                items.for_each(Outgoing::fail);
                return;
            }
        }
    }
}

async fn read(
    node: u64,
    mut receiver: ChannelReceiver,
    waiting: &Mutex<Waiting>,
    own: mpsc::WeakSender<Outgoing>,
) {
    while let Some(bytes) = receiver.recv().await {
        let responses = match frame::responses(&bytes) {
            Ok(responses) => responses,
            Err(error) => {
                tracing::error!(node, %error, "unreadable frame; closing the channel");
                return;
            }
        };
        let mut waiting = waiting.lock();
        for response in responses {
            if let Some(release) = waiting.take(response)
                && let Some(own) = own.upgrade()
            {
                // Without a place its messages' locks lapse, as they do where a link is lost.
                drop(own.try_send(release));
            }
        }
    }
}

impl Waiting {
    /// Whether something waits that the group's leader was asked.
    fn is_about(&self, group: GroupId) -> bool {
        self.calls.values().any(|(of, ..)| *of == group)
            || self.reads.values().any(|(of, _)| *of == group)
            || self.receivers.values().any(|attached| attached.group == group)
    }

    fn put(&mut self, item: Outgoing, out: &mut Vec<u8>) {
        self.last_id += 1;
        let id = self.last_id;
        match item {
            Outgoing::Call { group, command, reply } => {
                frame::put_call(id, group, &command, out);
                self.calls.insert(id, (group, command, reply));
            }
            Outgoing::Read { group, read, reply } => {
                frame::put_read(id, group, &read, out);
                self.reads.insert(id, (group, reply));
            }
            Outgoing::Attach { group, attach } => {
                let Attach { receiver, queue, credit, session, arrived, sink } = attach;
                frame::put_attach(group, receiver, queue, credit, &session, &arrived, out);
                self.receivers.insert(receiver, Attached { group, queue, sink });
            }
            Outgoing::Credit { group, receiver, count } => {
                frame::put_credit(group, receiver, count, out);
            }
            Outgoing::Drain { group, receiver } => frame::put_drain(group, receiver, out),
            // The attachment stays known until the leader has said its last word on it.
            Outgoing::Detach { group, receiver } => frame::put_detach(group, receiver, out),
            Outgoing::Report { reply } => {
                frame::put_report(id, out);
                self.reports.insert(id, reply);
            }
            Outgoing::Idle { asked, reply } => {
                frame::put_idle(id, &asked, out);
                self.idle.insert(id, reply);
            }
            Outgoing::Transfer { group, to, reply } => {
                frame::put_transfer(id, group, to, out);
                self.transfers.insert(id, reply);
            }
            Outgoing::EndClaims { group, transaction } => {
                frame::put_end_claims(group, transaction, out);
            }
            Outgoing::Cut { group, asked, reply } => {
                frame::put_cut(id, group, &asked, out);
                self.cuts.insert(id, reply);
            }
            Outgoing::Spend { spent, reply } => {
                frame::put_spend(id, &spent, out);
                self.spendings.insert(id, reply);
            }
        }
    }

    /// Hands a response to whoever waits for it. Messages for a receiver that is gone are given
    /// back: the release of their locks is returned.
    fn take(&mut self, response: Incoming) -> Option<Outgoing> {
        match response {
            Incoming::Answer { id, answer } => {
                let (_, command, reply) = self.calls.remove(&id)?;
                drop(reply.send(answered(command, answer)));
            }
            Incoming::NotLeader { id, leader } => {
                let (_, command, reply) = self.calls.remove(&id)?;
                drop(reply.send(Err(Failed::NotLeader { leader, command })));
            }
            Incoming::Unknown { id } => {
                let (_, command, reply) = self.calls.remove(&id)?;
                drop(reply.send(Err(Failed::Unknown { command })));
            }
            Incoming::Mendable { id, refusal } => {
                let (_, command, reply) = self.calls.remove(&id)?;
                drop(reply.send(Err(Failed::Mendable { refusal, command })));
            }
            Incoming::Read { id, result } => drop(self.reads.remove(&id)?.1.send(result)),
            Incoming::Report { id, report } => drop(self.reports.remove(&id)?.send(report)),
            Incoming::Idle { id, report } => drop(self.idle.remove(&id)?.send(report)),
            Incoming::Transferred { id, error } => drop(self.transfers.remove(&id)?.send(error)),
            Incoming::Cut { id, answer } => drop(self.cuts.remove(&id)?.send(answer)),
            Incoming::Owed { id, owed_ms } => drop(self.spendings.remove(&id)?.send(owed_ms)),
            Incoming::Event { receiver, event } => return self.event(receiver, event),
        }
        None
    }

    fn event(&mut self, receiver: ReceiverId, event: Event) -> Option<Outgoing> {
        let attached = self.receivers.get(&receiver)?;
        let (group, queue) = (attached.group, attached.queue);
        let last = matches!(event, Event::Detached(_));
        let sent = attached.sink.send(receiver, event);
        if last {
            self.receivers.remove(&receiver);
        }
        match sent {
            Err(Event::Deliveries(messages)) => {
                let (reply, _) = oneshot::channel();
                let command = release(queue, &messages)?;
                Some(Outgoing::Call { group, command, reply })
            }
            Err(Event::Accepted { token, .. }) => {
                let (reply, _) = oneshot::channel();
                let command = release_session(queue, token);
                Some(Outgoing::Call { group, command, reply })
            }
            // A notice that is lost would be missed: the receiver attaches anew, and looks at all (SEL-7).
            Err(Event::Rose { .. }) => {
                self.receivers.remove(&receiver);
                Some(Outgoing::Detach { group, receiver })
            }
            _ => None,
        }
    }

    /// The channel is gone: what was sent is perhaps done.
    fn fail(self) {
        for (_, command, reply) in self.calls.into_values() {
            drop(reply.send(Err(Failed::Unknown { command })));
        }
        for (_, reply) in self.reads.into_values() {
            drop(reply.send(Err(NotRead { leader: None })));
        }
        for (receiver, attached) in self.receivers {
            drop(attached.sink.send(receiver, Event::Detached(Detached::LeaderLost)));
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::SequenceNumber;
    use futures::FutureExt;

    use super::*;

    const GROUP: GroupId = GroupId(1);
    const RECEIVER: ReceiverId = ReceiverId { node: 1, link: 1, epoch: 1 };

    fn link(places: usize) -> (Link, mpsc::Receiver<Outgoing>) {
        let (outgoing, queue) = mpsc::channel(places);
        (Link { outgoing, state: Arc::default() }, queue)
    }

    fn call(link: &Link) -> oneshot::Receiver<CallResult> {
        let (reply, answer) = oneshot::channel();
        link.send(Outgoing::Call { group: GROUP, command: Command::Beat, reply });
        answer
    }

    #[tokio::test]
    async fn calls_leave_places_for_words_and_a_word_without_one_ends_the_link() {
        let (link, mut queue) = link(WORDS_RESERVED + 1);
        let mut first = call(&link);
        assert!(first.try_recv().is_err(), "it waits");
        let refused = call(&link).await.expect("an answer");
        assert!(matches!(refused, Err(Failed::NotLeader { leader: None, command: Command::Beat })));
        let credit = || Outgoing::Credit { group: GROUP, receiver: RECEIVER, count: 1 };
        (0..WORDS_RESERVED).for_each(|_| link.send(credit()));
        assert!(link.state.given_up.notified().now_or_never().is_none());
        link.send(credit());
        assert!(link.state.given_up.notified().now_or_never().is_some());
        assert!(matches!(queue.try_recv(), Ok(Outgoing::Call { .. })));
    }

    #[test]
    fn sel_7_a_watcher_that_misses_a_notice_attaches_anew() {
        let (sender, mut events) = mpsc::channel(1);
        let (queue, sink) = (QueueId::main(EntityId(1)), Sink::Local(sender));
        let mut waiting = Waiting::default();
        waiting.receivers.insert(RECEIVER, Attached { group: GROUP, queue, sink });
        let mut rose = |number| {
            let (low, high) = (SequenceNumber(number), SequenceNumber(number));
            waiting.event(RECEIVER, Event::Rose { low, high })
        };
        assert!(rose(1).is_none());
        let detached = rose(2);
        assert!(matches!(detached, Some(Outgoing::Detach { group: GROUP, receiver: RECEIVER })));
        assert!(rose(3).is_none(), "nobody is there any more");
        assert!(matches!(events.try_recv(), Ok(Event::Rose { low: SequenceNumber(1), .. })));
        // It takes what waits, and finds that its events have ended.
        assert_eq!(events.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}
