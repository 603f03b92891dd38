//! The leader's end of a channel another node opened: its requests go to the drivers in the order
//! they came, answers and deliveries come back gathered into frames.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::{Command, GroupId, Outcome, ReceiverId, Requester};
use replication::{Channel, ChannelReceiver, ChannelSender};
use tokio::sync::mpsc;

use crate::exchange::{
    Answer, Attach, Detached, Event, Failed, NotRead, OUTBOX_ITEMS_MAX, Outbox, Read, ReadReply,
    Reply, Response, Sink, TransactionId,
};
use crate::leader::Input;
use crate::peer::frame::{self, Request};
use crate::peer::local::{LocalNode, NOT_DEVELOPMENT};

/// Most responses looked at before a frame is sent.
const ITEMS_MAX: usize = 1024;
/// Most bytes of one of them: a channel takes 32 MiB at a time, and a frame may be nearly full before.
const ITEM_BYTES_MAX: usize = 24 << 20;

/// Serves a peer until its channel closes.
pub(crate) async fn serve(node: Arc<LocalNode>, from: u64, channel: Channel) {
    let (sender, mut receiver) = channel.split();
    let (outbox, responses) = Outbox::new(OUTBOX_ITEMS_MAX);
    let writer = tokio::spawn(write(sender, responses));
    let mut edge = Edge { node, from, outbox: outbox.clone(), receivers: HashMap::new() };
    tokio::select! {
        () = read(&mut edge, &mut receiver) => (),
        () = outbox.overfull() => {
            tracing::warn!(from, "a peer does not read what it is answered; closing the channel");
        }
    }
    edge.leave();
    // Answers still owed have nobody to go to: the peer calls them "perhaps done".
    writer.abort();
}

async fn read(edge: &mut Edge, receiver: &mut ChannelReceiver) {
    while let Some(bytes) = receiver.recv().await {
        match frame::requests(&bytes) {
            Ok(requests) => requests.into_iter().for_each(|request| edge.take(request)),
            Err(error) => {
                let from = edge.from;
                return tracing::error!(from, %error, "unreadable frame; closing the channel");
            }
        }
    }
}

async fn write(sender: ChannelSender, mut responses: mpsc::Receiver<Response>) {
    let mut items = Vec::new();
    while responses.recv_many(&mut items, ITEMS_MAX).await > 0 {
        let mut items = items.drain(..);
        while items.len() > 0 {
            let mut out = Vec::with_capacity(16 * 1024);
            while out.len() < frame::FRAME_BYTES_FULL
                && let Some(item) = items.next()
            {
                put(item, &mut out);
            }
            if sender.send(Bytes::from(out)).await.is_err() {
                return;
            }
        }
    }
}

/// An answer too large for a frame would end the channel, and with it all that others wait for: whoever
/// asked for it gets none.
fn put(item: Response, out: &mut Vec<u8>) {
    let before = out.len();
    frame::put_response(&item, out);
    let bytes = out.len() - before;
    if bytes <= ITEM_BYTES_MAX {
        return;
    }
    tracing::warn!(bytes, "an answer is too large for the way between nodes; its caller gets none");
    let instead = match item {
        Response::Answer { id, .. } => {
            Response::Answer { id, result: Err(Failed::Unknown { command: Command::Beat }) }
        }
        Response::Read { id, .. } => Response::Read { id, result: Err(NotRead { leader: None }) },
        // Deliveries are bounded by what one acquire may take, the rest by the number of groups.
        Response::Event { .. }
        | Response::Report { .. }
        | Response::Idle { .. }
        | Response::Transferred { .. }
        | Response::Cut { .. }
        | Response::Owed { .. } => return,
    };
    out.truncate(before);
    frame::put_response(&instead, out);
}

/// Another node, as an edge for its clients.
struct Edge {
    node: Arc<LocalNode>,
    from: u64,
    outbox: Outbox,
    /// Detached when the channel closes.
    receivers: HashMap<ReceiverId, GroupId>,
}

impl Edge {
    fn take(&mut self, request: Request) {
        let outbox = self.outbox.clone();
        match request {
            // Its edge has refused it already, unless that runs in development mode and this does not.
            Request::Call { id, command, .. }
                if command.facts().requester == Requester::DevelopmentNode
                    && !self.node.development =>
            {
                let outcome = Outcome::Refused(NOT_DEVELOPMENT);
                let result = Ok(Answer { outcome, contents: Vec::new() });
                drop(outbox.send(Response::Answer { id, result }));
            }
            Request::Call { id, group, command } => {
                let input = Input::Call { command, reply: Reply::Peer { id, outbox } };
                if let Err(Input::Call { command, reply }) = self.tell(group, input) {
                    reply.send(Err(Failed::NotLeader { leader: None, command }));
                }
            }
            Request::EndClaims { group, transaction } => {
                let transaction = TransactionId { node: self.from, id: transaction };
                if let Some(group) = self.node.group(group) {
                    group.claims.release(transaction);
                }
            }
            Request::Read { id, group, mut read } => {
                if let Read::Claim(claim) = &mut read {
                    claim.transaction.node = self.from; // Whoever it says it is.
                }
                let reply = ReadReply::Peer { id, outbox };
                match self.node.group(group) {
                    Some(group) => group.read(read, reply),
                    None => reply.send(Err(NotRead { leader: None })),
                }
            }
            Request::Attach { group, receiver, queue, credit, session, arrived } => {
                let sink = Sink::Peer(outbox);
                let attach = Attach { receiver, queue, credit, session, arrived, sink };
                self.receivers.insert(receiver, group);
                if let Err(Input::Attach(attach)) = self.tell(group, Input::Attach(attach)) {
                    drop(attach.sink.send(receiver, Event::Detached(Detached::LeaderLost)));
                }
            }
            Request::Credit { group, receiver, count } => {
                self.word(group, receiver, Input::Credit { receiver, count });
            }
            Request::Drain { group, receiver } => {
                self.word(group, receiver, Input::Drain { receiver });
            }
            Request::Detach { group, receiver } => {
                self.receivers.remove(&receiver);
                drop(self.tell(group, Input::Detach { receiver }));
            }
            Request::Report { id } => {
                let report = self.node.report();
                drop(outbox.send(Response::Report { id, report }));
            }
            Request::Idle { id, asked } => {
                let report = self.node.idle_report(&asked);
                drop(outbox.send(Response::Idle { id, report }));
            }
            Request::Spend { id, spent } => {
                let owed_ms = self.node.spend(&spent);
                drop(outbox.send(Response::Owed { id, owed_ms }));
            }
            Request::Cut { id, group, asked } => {
                let node = self.node.clone();
                tokio::spawn(async move {
                    let answer = node.cut(group, asked).await;
                    drop(outbox.send(Response::Cut { id, answer }));
                });
            }
            Request::Transfer { id, group, to } => {
                let node = self.node.clone();
                tokio::spawn(async move {
                    let error = node.transfer(group, to).await.err();
                    drop(outbox.send(Response::Transferred { id, error }));
                });
            }
        }
    }

    fn tell(&self, group: GroupId, input: Input) -> Result<(), Input> {
        match self.node.group(group) {
            Some(group) => group.tell(input),
            None => Err(input),
        }
    }

    /// A receiver's word to its leader. One for which the driver has no place is followed by none: the
    /// driver's last word has the receiver attach anew, with all its credit.
    fn word(&mut self, group: GroupId, receiver: ReceiverId, word: Input) {
        if self.receivers.contains_key(&receiver) && self.tell(group, word).is_err() {
            self.receivers.remove(&receiver);
            drop(self.tell(group, Input::Detach { receiver }));
        }
    }

    fn leave(&mut self) {
        for (receiver, group) in std::mem::take(&mut self.receivers) {
            drop(self.tell(group, Input::Detach { receiver }));
        }
        for group in self.node.groups.all() {
            group.claims.leave(self.from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::frame::Incoming;

    /// Who asked for too much is left in doubt, and those beside it have their answers.
    #[test]
    fn an_answer_too_large_for_the_way_is_none() {
        let answer = |id, bytes: usize| {
            let contents = vec![Bytes::from(vec![0; bytes])];
            Response::Answer { id, result: Ok(Answer { outcome: Outcome::Done, contents }) }
        };
        let mut out = Vec::new();
        for item in [answer(1, 10), answer(2, ITEM_BYTES_MAX + 1), answer(3, 10)] {
            put(item, &mut out);
        }
        assert!(out.len() < 1000, "{} bytes", out.len());
        let told = frame::responses(&out.into()).expect("whole");
        assert!(matches!(
            told[..],
            [
                Incoming::Answer { id: 1, .. },
                Incoming::Unknown { id: 2 },
                Incoming::Answer { id: 3, .. }
            ]
        ));
    }
}
