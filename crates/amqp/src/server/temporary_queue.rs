//! Queues that a client has made for as long as one of its links lasts (LINK-23): the dynamic nodes of
//! AMQP 1.0, part 3, 3.5.3 and 3.5.4, which JMS calls temporary queues.

use std::time::Duration;

use amqp_protocol::codec::{AnyTarget, Attach, Error, Map, Role, Symbols, Value};
use amqp_protocol::engine::LinkId;
use audit::{Action, Caller, Entry, Outcome, Trail};
use bytestring::ByteString;
use domain::{Patch, QueueProperties, Refusal, SequenceNumber, Span, SubQueue};
use service::{Broker, draw_message_id};
use tokio::time::sleep;

use super::failure;
use super::note::{Note, Notes, tell};
use crate::condition;

/// Of a node that dies its queues are left, and go when they were not used for so long: the shortest
/// time there is (IDLE-1).
const LEFT: Span = Span::from_secs(300);
/// So often the link counts as a use of its queue, whether anything is sent or received or not.
const USED_EVERY: Duration = Duration::from_secs(60);
const LIFETIME_POLICY: &str = "lifetime-policy";
/// The descriptor of the policy that is offered (AMQP 1.0, part 3, 3.5.10): with the link.
const DELETE_ON_CLOSE: (u64, &str) = (0x2b, "amqp:delete-on-close:list");

/// Gives the link's node a name if it is to be made, and says in the attach what holds for it; the name.
///
/// # Errors
/// `amqp:not-implemented` for a topic and for another lifetime than the link's.
pub(super) fn name(attach: &mut Attach) -> Result<Option<String>, Error> {
    let (address, properties, capabilities) =
        match (attach.role, &mut attach.source, &mut attach.target) {
            (Role::Receiver, Some(source), _) if source.dynamic => {
                (&mut source.address, &mut source.dynamic_node_properties, &source.capabilities)
            }
            (Role::Sender, _, Some(AnyTarget::Node(target))) if target.dynamic => {
                (&mut target.address, &mut target.dynamic_node_properties, &target.capabilities)
            }
            (Role::Receiver | Role::Sender, _, _) => return Ok(None),
        };
    if is_topic(capabilities) {
        let why = "a temporary topic is not offered; create a topic with AutoDeleteOnIdle, or a \
                   temporary queue";
        return Err(failure::told(condition::NOT_IMPLEMENTED, why, ""));
    }
    let asked = properties.as_ref().and_then(|properties| properties.get(LIFETIME_POLICY));
    if asked.is_some_and(|policy| !is_delete_on_close(policy)) {
        let why = "a temporary queue goes with its link; the lifetime-policy is delete-on-close";
        return Err(failure::told(condition::NOT_IMPLEMENTED, why, ""));
    }
    let empty = Value::List(Vec::new());
    let policy = Value::Described(Box::new((Value::Ulong(DELETE_ON_CLOSE.0), empty)));
    *properties = Some(Map::default().symbol(LIFETIME_POLICY, policy));
    let name = format!("temporary-{}", draw_message_id());
    *address = Some(ByteString::from(name.as_str()));
    Ok(Some(name))
}

fn is_topic(capabilities: &Symbols) -> bool {
    capabilities.contains("temporary-topic") || capabilities.contains("topic")
}

fn is_delete_on_close(policy: &Value) -> bool {
    let Value::Described(parts) = policy else { return false };
    match &parts.0 {
        Value::Symbol(name) => name.as_str() == DELETE_ON_CLOSE.1,
        descriptor => descriptor.as_i64() == i64::try_from(DELETE_ON_CLOSE.0).ok(),
    }
}

/// Whose link it is.
pub(super) struct Owner {
    pub caller: Caller,
    pub trail: Trail,
}

impl Owner {
    fn begin(&self, action: Action, name: &str) -> Entry {
        self.trail.begin(self.caller.clone(), action, name)
    }
}

/// Makes the queue, serves its link, and deletes the queue with it. What serves the link waits until
/// the queue is there.
pub(super) async fn keep(
    link: LinkId,
    broker: Broker,
    name: String,
    owner: Owner,
    notes: Notes,
    serve: impl Future<Output = ()>,
) {
    let as_said = Patch::default().created_in(broker.limits());
    let properties = QueueProperties { auto_delete_on_idle: LEFT, ..as_said };
    let entry = owner.begin(Action::EntityCreate, &name);
    let created = broker.queues().create(&name, properties, None).await;
    entry.end(Outcome::of_result(&created));
    if let Err(error) = created {
        return tell(&notes, Note::Failed(link, failure::error(&error))).await;
    }
    tokio::select! {
        () = serve => {}
        () = use_it(&broker, &name) => {}
    }
    let entry = owner.begin(Action::EntityDelete, &name);
    let deleted = broker.queues().delete(&name).await;
    entry.end(Outcome::of_result(&deleted));
    match deleted {
        Ok(()) => {}
        Err(error) if matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })) => {}
        Err(error) => tracing::warn!(%error, %name, "a temporary queue stays until it is idle"),
    }
}

/// PEEK-1: a peek counts as use. For ever.
async fn use_it(broker: &Broker, name: &str) {
    loop {
        sleep(USED_EVERY).await;
        let peeked =
            broker.messages().peek(name, SubQueue::Main, SequenceNumber(0), 1, false).await;
        if let Err(error) = peeked {
            tracing::debug!(%error, %name, "a temporary queue was not looked at");
        }
    }
}

#[cfg(test)]
mod tests {
    use amqp_protocol::codec::{Source, Symbol, Target};

    use super::*;

    fn described(descriptor: Value) -> Value {
        Value::Described(Box::new((descriptor, Value::List(Vec::new()))))
    }

    fn receiver(policy: Option<Value>, capability: &'static str) -> Attach {
        let capabilities = [Symbol::from_static(capability)].into_iter().collect();
        let properties = policy.map(|policy| Map::default().symbol(LIFETIME_POLICY, policy));
        let source = Source {
            dynamic: true,
            dynamic_node_properties: properties,
            capabilities,
            ..Source::default()
        };
        Attach { source: Some(source), ..Attach::receiver("r", "") }
    }

    /// Each row a policy, a capability, and whether there is a queue for it.
    #[test]
    fn link_23_a_temporary_queue_goes_with_its_link_and_a_topic_is_refused() {
        let symbol = |name| Value::Symbol(Symbol::from_static(name));
        for (policy, capability, is_made) in [
            (None, "queue", true),
            (Some(described(Value::Ulong(0x2b))), "temporary-queue", true),
            (Some(described(symbol(DELETE_ON_CLOSE.1))), "queue", true),
            (Some(described(Value::Ulong(0x2c))), "queue", false),
            (Some(described(symbol("amqp:delete-on-no-links:list"))), "queue", false),
            (Some(Value::Ulong(0x2b)), "queue", false),
            (None, "temporary-topic", false),
            (None, "topic", false),
        ] {
            let mut attach = receiver(policy.clone(), capability);
            match name(&mut attach) {
                Ok(Some(name)) => {
                    assert!(is_made, "{policy:?} {capability}");
                    let source = attach.source.unwrap_or_default();
                    assert_eq!(source.address.as_deref(), Some(name.as_str()));
                    let told = source.dynamic_node_properties.unwrap_or_default();
                    assert!(told.get(LIFETIME_POLICY).is_some_and(is_delete_on_close));
                }
                Ok(None) => panic!("{policy:?} {capability} is taken for a node that is there"),
                Err(error) => {
                    assert!(!is_made, "{policy:?} {capability}: {error:?}");
                    assert_eq!(&*error.condition, condition::NOT_IMPLEMENTED);
                }
            }
        }
    }

    #[test]
    fn link_23_only_the_clients_end_is_dynamic_where_it_says_so() {
        let mut plain = Attach::receiver("r", "q");
        assert_eq!(name(&mut plain), Ok(None));
        // The source of a sender is the client's own.
        let mut sender = Attach::sender("s", "q");
        sender.source = Some(Source { dynamic: true, ..Source::default() });
        assert_eq!(name(&mut sender), Ok(None));
        let target = Target { dynamic: true, ..Target::default() };
        sender.target = Some(AnyTarget::Node(target));
        let drawn = name(&mut sender).unwrap_or_default();
        assert!(drawn.is_some());
        assert_eq!(sender.target.and_then(|t| t.address().map(str::to_owned)), drawn);
    }
}
