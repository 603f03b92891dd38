//! Duplex streams of messages between nodes, for the layer above.

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::connection::Peer;
use super::v1;
use crate::ChannelError;

/// Messages handed over and not yet given to HTTP/2, whose windows bound what is on the way.
const QUEUED_MAX: usize = 32;

/// The other side is gone, or closed the channel.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the channel is closed")]
pub struct Closed;

/// One end of an ordered duplex stream of messages. Dropping it closes it; when either side or the
/// wire is lost, the other end sees its close. Messages on the way then are lost.
pub struct Channel {
    sender: ChannelSender,
    receiver: ChannelReceiver,
}

impl Channel {
    /// Sends a message of at most [`crate::MESSAGE_BYTES_MAX`] less a few bytes; waits while the
    /// other side reads more slowly than this one sends.
    pub async fn send(&self, message: Bytes) -> Result<(), Closed> {
        self.sender.send(message).await
    }

    /// The next message; `None` once the channel is closed.
    pub async fn recv(&mut self) -> Option<Bytes> {
        self.receiver.recv().await
    }

    /// Both directions, for two tasks. Dropping the receiver closes the channel; dropping every
    /// sender ends this direction.
    pub fn split(self) -> (ChannelSender, ChannelReceiver) {
        (self.sender, self.receiver)
    }
}

#[derive(Clone)]
pub struct ChannelSender(mpsc::Sender<v1::ChannelMessage>);

impl ChannelSender {
    /// See [`Channel::send`].
    pub async fn send(&self, data: Bytes) -> Result<(), Closed> {
        self.0.send(v1::ChannelMessage { data }).await.map_err(|_| Closed)
    }

    /// Waits until the channel is closed.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

pub struct ChannelReceiver(Streaming<v1::ChannelMessage>);

impl ChannelReceiver {
    /// See [`Channel::recv`]. Cancelling it loses nothing.
    pub async fn recv(&mut self) -> Option<Bytes> {
        // A wire that broke and a peer that closed are one and the same to the layer above.
        self.0.message().await.ok().flatten().map(|message| message.data)
    }
}

/// Messages going out; the other half of a channel's sender.
pub(crate) type Outgoing = ReceiverStream<v1::ChannelMessage>;

/// This end of a stream that a peer opened, and what to send back on it.
pub(crate) fn accepted(messages: Streaming<v1::ChannelMessage>) -> (Channel, Outgoing) {
    let (sender, outgoing) = mpsc::channel(QUEUED_MAX);
    let channel = Channel { sender: ChannelSender(sender), receiver: ChannelReceiver(messages) };
    (channel, ReceiverStream::new(outgoing))
}

pub(crate) async fn open(peer: &Peer) -> Result<Channel, ChannelError> {
    let (sender, outgoing) = mpsc::channel(QUEUED_MAX);
    let mut client = peer.bulk.clone();
    match client.open(ReceiverStream::new(outgoing)).await {
        Ok(response) => {
            peer.accepted();
            let receiver = ChannelReceiver(response.into_inner());
            Ok(Channel { sender: ChannelSender(sender), receiver })
        }
        Err(status) => Err(peer.not_reached(&status)),
    }
}
