//! Where 0.2 applies entries otherwise than 0.1 did: each difference once. A log is applied by the rules of the level
//! that it has reached, so that replicas of several versions come to the same rows. What is below the level of 0.2
//! goes once no cluster can come from 0.1 any more.

use crate::{
    Action, BATCH_BYTES_MAX, FEATURE_LEVEL_ARRIVAL_TIMES, FEATURE_LEVEL_ENDED_CREATIONS,
    FEATURE_LEVEL_NAMESPACES, FEATURE_LEVEL_RULES_OF_0_2, Lifetime, NewMessage, QueueProperties,
    Refusal, RuleError, Span, SqlText, SubscriptionProperties, SubscriptionSpecifics, Timestamp,
    TopicSpecifics, namespace_of, told_name, validate,
};

/// As [`Meta::level`](crate::Meta).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupLevel(pub u32);

/// Most messages in one send, before the level of 0.2.
const BATCH_MESSAGES_MAX: usize = 4500;
/// The shortest lock, before it.
const LOCK_DURATION_MIN: Span = Span::from_secs(5);

impl GroupLevel {
    fn is_of_0_2(self) -> bool {
        self.0 >= FEATURE_LEVEL_RULES_OF_0_2
    }

    /// Whether it is written down when an entity came from another group.
    pub fn times_arrivals(self) -> bool {
        self.0 >= FEATURE_LEVEL_ARRIVAL_TIMES
    }

    /// ENT-2: whether it is written down that the entity of a creation is gone.
    pub fn remembers_creations(self) -> bool {
        self.0 >= FEATURE_LEVEL_ENDED_CREATIONS
    }

    /// NS-3: whether names may be in a namespace.
    fn has_namespaces(self) -> bool {
        self.0 >= FEATURE_LEVEL_NAMESPACES
    }

    /// What a client calls what has this name.
    fn told(self, name: &str) -> &str {
        if self.has_namespaces() { told_name(name) } else { name }
    }

    /// DEFER-7.
    pub fn counts_deferrals(self) -> bool {
        self.is_of_0_2()
    }

    /// DLQ-4.
    pub fn counts_in_dead_letter_queues(self) -> bool {
        !self.is_of_0_2()
    }

    /// SCHED-17: whether a message's row says that it waited for its time.
    pub fn tells_schedules(self) -> bool {
        self.is_of_0_2()
    }

    /// LOCK-23: whether what is deferred counts as forwarded, and so is not received.
    pub fn forwards_deferred(self) -> bool {
        !self.is_of_0_2()
    }

    /// TTL-18, TTL-28: what a default makes of a lifetime as its message enters the dead-letter queue.
    pub fn inherited(self, ttl: Span, expires_at: Timestamp) -> Lifetime {
        match self.is_of_0_2() {
            true => Lifetime::Inherited { ttl, expires_at },
            false => Lifetime::Fixed { ttl, expires_at },
        }
    }

    /// SESS-3, DLQ-7.
    pub fn session_description(self) -> &'static str {
        match self.is_of_0_2() {
            true => {
                "Session enabled entity doesn't allow a message whose session identifier is null."
            }
            false => "The entity requires sessions, and the message has no session id.",
        }
    }

    /// FWD-11, IDLE-3: what is written of an entity that forwards.
    pub fn settled(self, mut properties: QueueProperties) -> QueueProperties {
        if !self.is_of_0_2() && properties.is_forwarding() {
            properties.auto_delete_on_idle = Span::MAX;
        }
        properties
    }

    /// STATE-1: 0.1 told Disabled of a topic that was told to be SendDisabled.
    pub fn restrict_topic(self, specifics: &mut TopicSpecifics) {
        if !self.is_of_0_2() {
            (specifics.send_disabled, specifics.subscription_partitioning) = (false, false);
        }
    }

    /// As [`GroupLevel::restrict_topic`].
    pub fn restrict_subscription(self, specifics: &mut SubscriptionSpecifics) {
        specifics.receive_disabled &= self.is_of_0_2();
    }

    /// RULE-19: of a rule that is stored. Whether it could be stored now is no matter.
    pub fn stored_action(self, action: &SqlText) -> Result<Action, RuleError> {
        let action = Action::stored(&action.text, &action.parameters)?;
        Ok(if self.is_of_0_2() { action } else { action.of_0_1() })
    }
}

/// What is refused.
impl GroupLevel {
    /// ENT-1, ENT-13.
    pub fn queue_name(self, name: &str) -> Result<(), Refusal> {
        match self.is_of_0_2() {
            true => validate::queue_name(self.told(name)),
            false => validate::queue_name_of_0_1(name),
        }
    }

    /// ENT-1.
    pub fn subscription_name(self, name: &str) -> Result<(), Refusal> {
        self.without_tilde("subscription name", name)?;
        validate::subscription_name(name)
    }

    /// ENT-1.
    pub fn rule_name(self, name: &str) -> Result<(), Refusal> {
        self.without_tilde("rule name", name)?;
        validate::rule_name(name)
    }

    fn without_tilde(self, what: &'static str, name: &str) -> Result<(), Refusal> {
        match !self.is_of_0_2() && name.contains('~') {
            true => Err(Refusal::Argument { what, why: "it must not hold '~'".to_owned() }),
            false => Ok(()),
        }
    }

    /// QUOTA-6.
    pub fn batch(self, messages: &[NewMessage]) -> Result<(), Refusal> {
        if self.is_of_0_2() {
            return validate::batch(messages);
        }
        if !(1..=BATCH_MESSAGES_MAX).contains(&messages.len()) {
            let (what, allowed) = ("number of messages in one send", "1 to 4500");
            let value = messages.len().to_string();
            return Err(Refusal::ArgumentOutOfRange { what, value, allowed });
        }
        let bytes = messages.iter().map(|message| u64::from(message.size_bytes)).sum();
        let (what, max) = ("the batch", BATCH_BYTES_MAX as u64);
        match bytes > max {
            true => Err(Refusal::MessageSizeExceeded { what, bytes, max }),
            false => Ok(()),
        }
    }

    /// As [`validate::new_message`].
    pub fn new_message(self, message: &NewMessage) -> Result<(), Refusal> {
        let of_no_session = message.session_id.as_deref() == Some("");
        let of_a_key = message.partition_key.as_deref().is_some_and(|key| !key.is_empty());
        if !self.is_of_0_2() && of_no_session && of_a_key {
            let why = "SessionId and PartitionKey are both set and differ";
            return Err(Refusal::InvalidOperation { why });
        }
        validate::new_message(message)
    }

    /// ENT-4.
    pub fn queue_properties(self, properties: &QueueProperties) -> Result<(), Refusal> {
        validate::queue_properties(properties)?;
        self.lock_duration(properties.lock_duration)
    }

    /// ENT-4.
    pub fn subscription_properties(
        self,
        properties: &SubscriptionProperties,
    ) -> Result<(), Refusal> {
        validate::subscription_properties(properties)?;
        self.lock_duration(properties.lock_duration)
    }

    fn lock_duration(self, lock_duration: Span) -> Result<(), Refusal> {
        if self.is_of_0_2() || lock_duration >= LOCK_DURATION_MIN {
            return Ok(());
        }
        let (what, allowed) = ("LockDuration", "5 s to 5 min");
        let value = format!("{} ms", lock_duration.0);
        Err(Refusal::ArgumentOutOfRange { what, value, allowed })
    }

    /// FWD-2, of what is created.
    pub fn new_forwarding(self, name: &str, properties: &QueueProperties) -> Result<(), Refusal> {
        match self.is_of_0_2() {
            true => {
                validate::new_forwarding(name, properties)?;
                self.forwarding(name, properties)
            }
            false => forwarding_of_0_1(name, properties),
        }
    }

    /// FWD-2, of what is changed.
    pub fn forwarding(self, name: &str, properties: &QueueProperties) -> Result<(), Refusal> {
        match self.is_of_0_2() {
            true => self.destinations(name, properties),
            false => forwarding_of_0_1(name, properties),
        }
    }

    /// FWD-1, NS-4: destinations have names, in the namespace of what forwards.
    fn destinations(self, name: &str, properties: &QueueProperties) -> Result<(), Refusal> {
        for to in
            [&properties.forward_to, &properties.forward_dead_letters_to].into_iter().flatten()
        {
            if self.has_namespaces() && namespace_of(name) != namespace_of(to) {
                return Err(Refusal::EntityNotFound { name: told_name(to).to_owned() });
            }
            validate::queue_name(self.told(to))?;
        }
        Ok(())
    }

    /// RULE-21.
    pub fn check_action(self, action: &SqlText) -> Result<(), RuleError> {
        match self.is_of_0_2() {
            true => action.compile_action().map(drop),
            false => self.stored_action(action).map(drop),
        }
    }
}

fn forwarding_of_0_1(name: &str, properties: &QueueProperties) -> Result<(), Refusal> {
    for to in [&properties.forward_to, &properties.forward_dead_letters_to].into_iter().flatten() {
        if to.eq_ignore_ascii_case(name) {
            let why = "an entity cannot forward to itself";
            return Err(Refusal::InvalidOperation { why });
        }
        validate::queue_name_of_0_1(to)?;
    }
    Ok(())
}
