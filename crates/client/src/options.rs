//! Knobs, each with a default, a unit and a consequence.

use std::fmt;
use std::time::Duration;

use crate::v1::{ReceiveMode, SubQueue};

/// Which nodes a client believes to be what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those whose certificate an authority vouches for that this machine trusts.
    #[default]
    System,
    /// Those whose certificate is vouched for by one of these, as PEM, or is one of them.
    Authorities(Vec<u8>),
}

/// A certificate and its key, each as PEM: shown to nodes that ask for one.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Followed by its chain.
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive() // No key in a log.
    }
}

/// How a [`crate::Client`] talks to a cluster.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// A key, sent with every call: as a bearer token, or, with a name, as that key's. A shared access
    /// signature is sent as it is. Default none.
    pub secret: Option<String>,
    /// What the key is called: by a name it is told from others, and found among an entity's own.
    /// Default none.
    pub key_name: Option<String>,
    /// Which namespace all that is asked for is in. Default the default one.
    pub namespace: Option<String>,
    /// TLS to every node whose address does not say `http://`, those included that the cluster names.
    /// Default none, unless an address given says `https://`: then [`Trust::System`].
    pub tls: Option<Trust>,
    /// Shown over TLS, which it takes as well, to nodes that ask for one. Default none.
    pub certificate: Option<ClientCertificate>,
    /// How long one node may take to accept a connection before the next is tried. Default 2 s.
    pub connect_timeout: Duration,
    /// How long one node may take to answer before it is asked again or another is; on a stream half
    /// as long again, as nodes say by themselves what they could not decide in time. Default 10 s.
    pub attempt_timeout: Duration,
    /// How long a call, or a stream that finds no node, tries before it gives up. Default 30 s.
    pub give_up_after: Duration,
    /// A silent connection is probed this often, and given up when the probe stays unanswered for
    /// half as long again: a node that hangs is left within two and a half times this. Default 1 s.
    pub probe_interval: Duration,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            secret: None,
            key_name: None,
            namespace: None,
            tls: None,
            certificate: None,
            connect_timeout: Duration::from_secs(2),
            attempt_timeout: Duration::from_secs(10),
            give_up_after: Duration::from_secs(30),
            probe_interval: Duration::from_secs(1),
        }
    }
}

/// How a [`crate::Sender`] gathers messages into requests.
#[derive(Clone, Copy, Debug)]
pub struct SenderOptions {
    /// Messages accepted from the application and not yet answered; beyond it, sending waits.
    /// Default 256.
    pub window: usize,
    /// Requests under way. Few make larger batches under load, as messages gather meanwhile; many
    /// spare the single message a wait. Default 8.
    pub requests_max: usize,
    /// Most messages in one request. Default 256.
    pub batch_messages_max: usize,
    /// A request is closed once it holds this many bytes. Default 256 KiB.
    pub batch_bytes_max: usize,
}

impl Default for SenderOptions {
    fn default() -> SenderOptions {
        SenderOptions {
            window: 256,
            requests_max: 8,
            batch_messages_max: 256,
            batch_bytes_max: 256 * 1024,
        }
    }
}

/// What a [`crate::Receiver`] receives, and how much of it ahead of the application.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverOptions {
    /// The queue itself or its dead-letter queue. Default the queue.
    pub sub_queue: SubQueue,
    /// Default peek-lock (LOCK-1).
    pub mode: ReceiveMode,
    /// Deliveries fetched ahead. Their lock clock runs while they wait (LOCK-25). Default 64.
    pub prefetch: u32,
    /// Requests that carry settlements under way; settlements gather meanwhile. Default 8.
    pub requests_max: usize,
}

impl Default for ReceiverOptions {
    fn default() -> ReceiverOptions {
        ReceiverOptions {
            sub_queue: SubQueue::Main,
            mode: ReceiveMode::PeekLock,
            prefetch: 64,
            requests_max: 8,
        }
    }
}
