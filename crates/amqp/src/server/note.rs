//! What the futures of a connection tell the connection.

use amqp_protocol::codec::{DeliveryState, Error};
use amqp_protocol::engine::{DeliveryId, LinkId};
use amqp_protocol::request::Envelope;
use bytes::Bytes;
use domain::{SessionToken, Timestamp};
use futures::future::BoxFuture;
use service::Received;
use tokio::sync::mpsc;

use super::fates::Postponed;
use super::proof::{Keys, Proof};
use super::requests::RequestLink;
use super::tasks::Turn;
use crate::cbs::Status;
use crate::management::Reply;

/// Work that waits for the broker, done within the connection's task.
pub(super) type Work = BoxFuture<'static, ()>;

/// One connection's way from its futures back to itself.
pub(super) type Notes = mpsc::Sender<Note>;
/// Notes that the connection has not looked at yet. Beyond, its futures wait, and the connection waits
/// for none of them: it looks at its notes between any two things that it does.
pub(super) const NOTES_WAITING_MAX: usize = 1024;

#[derive(Debug)]
pub(super) enum Note {
    /// The broker serves the link.
    Ready(LinkId, Terms),
    /// The link cannot be served, or not any more.
    Failed(LinkId, Error),
    /// The log has decided on deliveries from the client, on all the same.
    Decided(Vec<DeliveryId>, DeliveryState),
    /// The log has decided on one that the client settled itself.
    Stored(LinkId),
    /// Messages for the client.
    Messages(LinkId, Vec<Received>),
    /// No more messages come for the credit given.
    Drained(LinkId),
    /// What a transaction says of the client's verdict: nothing is settled by it.
    Provisional(DeliveryId, DeliveryState),
    /// The last of a transaction: its locks are nobody's but their holders'.
    TransactionEnded(Bytes),
    /// The log has decided on the client's verdicts.
    Settled(Vec<(DeliveryId, DeliveryState)>),
    /// A management request was carried out.
    Replied {
        from: RequestLink,
        node: String,
        envelope: Box<Envelope>,
        reply: Reply,
        turn: Option<Turn>,
    },
    /// A management request was carried out, and its answer is to be lost.
    ReplyLost,
    /// What was held up by a fault.
    Postponed(Box<Postponed>),
    /// A token was judged, and what it is for was looked for.
    Token { from: RequestLink, envelope: Box<Envelope>, status: Status },
    /// A login was wrong, and has waited for its answer.
    LoginRefused,
    /// What the entities' own keys are, or why nobody knows.
    Keys { proof: Proof, keys: Result<Keys, service::Error> },
}

/// What a client is told when its link is accepted, beside what it wrote itself.
#[derive(Debug)]
pub(super) enum Terms {
    Plain,
    /// Of a sender link: the largest message that its entity takes.
    Sender {
        message_bytes_max: u64,
    },
    /// SESS-8: which session is held, and until when.
    Session {
        token: SessionToken,
        until: Timestamp,
    },
}

/// Tells the connection. One that has ended needs to know nothing.
pub(super) async fn tell(notes: &Notes, note: Note) {
    drop(notes.send(note).await);
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_note_without_a_place_is_waited_with_until_the_connection_has_ended() {
        let (notes, mut inbox) = mpsc::channel(1);
        let note = || Note::Decided(Vec::new(), DeliveryState::ACCEPTED);
        assert!(tell(&notes, note()).now_or_never().is_some());
        let mut second = tell(&notes, note()).boxed();
        assert!((&mut second).now_or_never().is_none());
        assert!(inbox.try_recv().is_ok());
        assert!(second.now_or_never().is_some());
        inbox.close();
        assert!(tell(&notes, note()).now_or_never().is_some());
    }
}
