//! The one protocol-neutral API. Every front end speaks to a [`Broker`] and to nothing below it.

use std::sync::Arc;

use domain::{BATCH_BYTES_MAX, Namespace, NewMessage, ProfileLimits, Refusal};
use fault_rules::{Event, Hit, Operation, RuleBook};

use crate::edge::admission::Admission;
use crate::edge::cluster::Cluster;
use crate::edge::documents::Documents;
use crate::edge::entities::{Entities, Queues, Rules, Subscriptions, Topics};
use crate::edge::messages::Messages;
use crate::edge::namespaces::Namespaces;
use crate::edge::profiles;
use crate::edge::router::{Hold, Router};
use crate::edge::sessions::Sessions;
use crate::edge::transaction::Transactions;
use crate::error::{Error, Result};
use crate::history::{Actor, Attribution};

/// A node's way into the cluster, by what it is wanted for. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    router: Arc<Router>,
    admission: Arc<Admission>,
    /// On whose behalf messages are asked for through it.
    by: Attribution,
    /// What clients call entities through it is called so there.
    namespace: Namespace,
}

impl Broker {
    pub(crate) fn new(router: Arc<Router>) -> Broker {
        let admission = Arc::new(Admission::new(&router.config));
        Broker { router, admission, by: Attribution::default(), namespace: Namespace::DEFAULT }
    }

    /// The same, for what a client asks for over a connection: where it is recorded what happens to messages, it is
    /// noted that he did it.
    pub fn acting_for(&self, actor: impl FnOnce() -> Actor) -> Broker {
        let by = self.router.local.about.history.attribute(actor);
        Broker { by, ..self.clone() }
    }

    /// The same for entities of a namespace, whether there is such a one or not.
    pub fn within(&self, namespace: Namespace) -> Broker {
        Broker { namespace, ..self.clone() }
    }

    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// What its namespace takes (QUOTA-0), as far as this node has heard.
    pub fn limits(&self) -> &'static ProfileLimits {
        profiles::limits(&self.router, &self.namespace)
    }

    /// QUOTA-6: of what a client sends as one batch, where the broker is not told of it as one.
    ///
    /// # Errors
    /// It is larger than its namespace takes.
    pub fn check_batch(&self, messages: &[NewMessage]) -> Result<(), Refusal> {
        profiles::check_batch(&self.router, &self.namespace, messages)
    }

    /// QUOTA-35.
    ///
    /// # Errors
    /// Its namespace has no transactions.
    pub fn check_transactions(&self) -> Result<()> {
        let checked = profiles::check_transactions(&self.router, &self.namespace);
        checked.map_err(|refusal| Error::new(refusal, ""))
    }

    /// See [`Router::end`].
    pub(crate) fn end(&self) {
        self.router.end();
    }

    /// Nothing that is asked of it is done any more: the node has ended.
    pub fn has_ended(&self) -> bool {
        self.router.is_ended()
    }

    pub fn messages(&self) -> Messages<'_> {
        let Broker { router, admission, by, namespace } = self;
        Messages { router, admission, by, hold: Hold::Lasting, namespace }
    }

    pub fn sessions(&self) -> Sessions<'_> {
        let Broker { router, by, namespace, .. } = self;
        Sessions { router, by, hold: Hold::Lasting, namespace }
    }

    pub fn transactions(&self) -> Transactions<'_> {
        let Broker { router, admission, namespace, .. } = self;
        Transactions { router, admission, namespace }
    }

    /// Entities of whatever kind, by their names.
    pub fn entities(&self) -> Entities<'_> {
        Entities::new(&self.router, &self.namespace)
    }

    pub fn queues(&self) -> Queues<'_> {
        Queues { router: &self.router, namespace: &self.namespace }
    }

    pub fn topics(&self) -> Topics<'_> {
        Topics { router: &self.router, namespace: &self.namespace }
    }

    pub fn subscriptions(&self) -> Subscriptions<'_> {
        Subscriptions { router: &self.router, namespace: &self.namespace }
    }

    pub fn rules(&self) -> Rules<'_> {
        Rules { router: &self.router, namespace: &self.namespace }
    }

    /// The faults that clients of this node meet, if there are any: mostly there are none, and that is all that
    /// anybody asks.
    pub fn faults(&self) -> Option<Faults<'_>> {
        let book = self.router.local.about.faults.as_deref()?;
        let (router, namespace) = (&self.router, &self.namespace);
        (!book.is_empty()).then_some(Faults { book, router, namespace })
    }

    pub fn cluster(&self) -> Cluster<'_> {
        Cluster::new(&self.router).within(&self.namespace)
    }

    pub fn documents(&self) -> Documents<'_> {
        Documents::new(&self.router)
    }

    pub fn namespaces(&self) -> Namespaces<'_> {
        Namespaces::new(&self.router)
    }
}

/// Rules that are in force.
#[derive(Clone, Copy)]
pub struct Faults<'a> {
    book: &'a RuleBook,
    router: &'a Arc<Router>,
    namespace: &'a Namespace,
}

impl Faults<'_> {
    /// Whether some rule is about an operation: whether it is worth while to tell what happens.
    pub fn concern(self, operation: Operation) -> bool {
        self.book.concerns(operation)
    }

    /// The fault that an event meets.
    pub fn meet(self, event: &Event<'_>) -> Option<Hit> {
        let now = Cluster::new(self.router).now_here().0;
        if self.namespace.is_default() || event.entity.is_empty() {
            return self.book.meet(event, now);
        }
        let entity = format!("{}{}", self.namespace.prefix(), event.entity);
        let mut told = Event::new(event.protocol, event.operation, &entity);
        (told.client, told.link, told.key) = (event.client, event.link, event.key);
        (told.message, told.failed_deliveries) = (event.message, event.failed_deliveries);
        self.book.meet(&told, now)
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
