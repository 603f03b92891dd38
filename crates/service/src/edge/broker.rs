//! The one protocol-neutral API. Every front end speaks to a [`Broker`] and to nothing below it.

use std::sync::Arc;

use domain::BATCH_BYTES_MAX;
use fault_rules::{Event, Hit, Operation, RuleBook};

use crate::edge::admission::Admission;
use crate::edge::cluster::Cluster;
use crate::edge::entities::{Entities, Queues, Rules, Subscriptions, Topics};
use crate::edge::messages::Messages;
use crate::edge::router::{Hold, Router};
use crate::edge::sessions::Sessions;
use crate::edge::transaction::Transactions;
use crate::history::{Actor, Attribution};

/// A node's way into the cluster, by what it is wanted for. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    router: Arc<Router>,
    admission: Arc<Admission>,
    /// On whose behalf messages are asked for through it.
    by: Attribution,
}

impl Broker {
    pub(crate) fn new(router: Arc<Router>) -> Broker {
        let admission = Arc::new(Admission::new(&router.config));
        Broker { router, admission, by: Attribution::default() }
    }

    /// The same, for what a client asks for over a connection: where it is recorded what happens to messages, it is
    /// noted that he did it.
    pub fn acting_for(&self, actor: impl FnOnce() -> Actor) -> Broker {
        let by = self.router.local.about.history.attribute(actor);
        Broker { by, ..self.clone() }
    }

    /// See [`Router::end`].
    pub(crate) fn end(&self) {
        self.router.end();
    }

    pub fn messages(&self) -> Messages<'_> {
        let Broker { router, admission, by } = self;
        Messages { router, admission, by, hold: Hold::Lasting }
    }

    pub fn sessions(&self) -> Sessions<'_> {
        Sessions { router: &self.router, by: &self.by, hold: Hold::Lasting }
    }

    pub fn transactions(&self) -> Transactions<'_> {
        Transactions { router: &self.router, admission: &self.admission }
    }

    /// Entities of whatever kind, by their names.
    pub fn entities(&self) -> Entities<'_> {
        Entities::new(&self.router)
    }

    pub fn queues(&self) -> Queues<'_> {
        Queues { router: &self.router }
    }

    pub fn topics(&self) -> Topics<'_> {
        Topics { router: &self.router }
    }

    pub fn subscriptions(&self) -> Subscriptions<'_> {
        Subscriptions { router: &self.router }
    }

    pub fn rules(&self) -> Rules<'_> {
        Rules { router: &self.router }
    }

    /// The faults that clients of this node meet, if there are any: mostly there are none, and that is all that
    /// anybody asks.
    pub fn faults(&self) -> Option<Faults<'_>> {
        let book = self.router.local.about.faults.as_deref()?;
        (!book.is_empty()).then_some(Faults { book, router: &self.router })
    }

    pub fn cluster(&self) -> Cluster<'_> {
        Cluster::new(&self.router)
    }
}

/// Rules that are in force.
#[derive(Clone, Copy)]
pub struct Faults<'a> {
    book: &'a RuleBook,
    router: &'a Arc<Router>,
}

impl Faults<'_> {
    /// Whether some rule is about an operation: whether it is worth while to tell what happens.
    pub fn concern(self, operation: Operation) -> bool {
        self.book.concerns(operation)
    }

    /// The fault that an event meets.
    pub fn meet(self, event: &Event<'_>) -> Option<Hit> {
        self.book.meet(event, Cluster::new(self.router).now_here().0)
    }
}

/// QUOTA-6 in bytes, for front ends that refuse before decoding.
pub const SEND_BYTES_MAX: usize = BATCH_BYTES_MAX;

/// A message id for a message that has none: a uuid in 32 hexadecimal digits.
pub fn draw_message_id() -> String {
    uuid::Uuid::from_bytes(draw_uuid()).simple().to_string()
}

/// A uuid from this thread's generator: one for every message is too often to ask the system.
pub fn draw_uuid() -> [u8; 16] {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid().into_bytes()
}
