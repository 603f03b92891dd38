//! The edge's end of a channel to another node: requests of all its clients for groups led there,
//! gathered into frames, and the answers taken apart again.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::{Command, EntityId, GroupId, QueueId, ReceiverId};
use parking_lot::Mutex;
use replication::{ChannelReceiver, ChannelSender, Replication};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::exchange::{
    Attach, CallResult, Detached, Event, Failed, IdleReport, NodeReport, NotRead, Read, ReadResult,
    Sink, answered, release, release_session,
};
use crate::peer::frame::{self, Incoming};

/// Most requests looked at before a frame is sent.
const ITEMS_MAX: usize = 1024;

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
}

impl Outgoing {
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
            // The leader forgets the transactions of a node that it lost.
            | Outgoing::EndClaims { .. } => (),
        }
    }
}

/// A link to one node, open or being opened. It ends with its channel, or when it is given up; the
/// next request opens another.
#[derive(Clone)]
pub(crate) struct Link {
    outgoing: mpsc::UnboundedSender<Outgoing>,
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
        let (outgoing, queue) = mpsc::unbounded_channel();
        let link = Link { outgoing, state: Arc::default() };
        let own = link.outgoing.downgrade();
        tokio::spawn(run(node, replication, queue, own, link.state.clone()));
        link
    }

    pub fn is_open(&self) -> bool {
        !self.outgoing.is_closed()
    }

    pub fn send(&self, outgoing: Outgoing) {
        if let Err(lost) = self.outgoing.send(outgoing) {
            lost.0.fail();
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
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    own: mpsc::WeakUnboundedSender<Outgoing>,
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
    queue: &mut mpsc::UnboundedReceiver<Outgoing>,
    own: mpsc::WeakUnboundedSender<Outgoing>,
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
    receivers: HashMap<ReceiverId, Attached>,
}

struct Attached {
    group: GroupId,
    queue: QueueId,
    sink: Sink,
}

async fn write(
    sender: &ChannelSender,
    queue: &mut mpsc::UnboundedReceiver<Outgoing>,
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
    own: mpsc::WeakUnboundedSender<Outgoing>,
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
                drop(own.send(release));
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
