//! What a property is: its names in every dialect, its type with its bounds, and its field in the
//! descriptions of the entities that have it.

use super::{PROPERTIES, QueueProperties, SubscriptionProperties, TopicProperties};
use crate::{AuthorizationRule, EntityKind, EntityStatus, Span};

/// A row of [`PROPERTIES`].
#[derive(Debug)]
pub struct EntityProperty {
    /// The name of its field in the descriptions, and of its key in the command line's JSON.
    pub name: &'static str,
    /// The field of the native API's messages.
    pub native: &'static str,
    /// The element of a description in XML, and the key of an emulator's file.
    pub element: &'static str,
    pub in_emulator_file: bool,
    /// The command line's flag, where it has one, and what it calls the property when it shows an
    /// entity.
    pub flag: Option<&'static str>,
    pub label: &'static str,
    pub of: PropertyType,
    pub mutability: Mutability,
    pub tiered: Tiered,
    /// What it does, as a sentence without its end; `{entity}` stands for the entity's kind. See
    /// [`EntityProperty::help`].
    pub help: &'static str,
    /// What one kind of entity adds to the sentence.
    pub particulars: &'static [(EntityKind, &'static str)],
    /// The rules that say more.
    pub rules: &'static [&'static str],
}

/// The type of a property's values, and which of them are allowed (ENT-4). `allowed` says the bounds
/// to people.
#[derive(Debug)]
pub enum PropertyType {
    Duration {
        field: Field<Span>,
        min: Span,
        /// Whether a client that asks for less, but more than none, gets `min`.
        is_raised: bool,
        max: Span,
        allowed: &'static str,
    },
    /// `unit` is what is counted, where that is bytes.
    Number {
        field: Field<u32>,
        min: u32,
        max: u32,
        multiple_of: u32,
        unit: Option<&'static str>,
        allowed: &'static str,
    },
    Flag(Field<bool>),
    /// `length` names what is bounded.
    Text {
        field: Field<String>,
        chars_max: usize,
        length: &'static str,
        allowed: &'static str,
    },
    /// The name of a queue or topic; clients write an empty text for none.
    Destination(Field<Option<String>>),
    /// Not each kind of entity has each status (STATE-1).
    Status(Field<EntityStatus>),
    AuthorizationRules(Field<Vec<AuthorizationRule>>),
}

/// Whether an update may change a property.
#[derive(Clone, Copy, Debug)]
pub enum Mutability {
    Always,
    /// ENT-5: it is told at creation; and why an update is refused.
    Never(fn(EntityKind) -> &'static str),
}

/// In what way profiles differ about a property (QUOTA-0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tiered {
    /// In none.
    Not,
    /// QUOTA-35: some have nothing of it, and so it cannot be set.
    Feature,
    /// PART-1.
    Partitioning,
    /// QUOTA-1.
    EntitySize,
    /// QUOTA-5.
    MessageSize,
    /// TTL-6.
    TimeToLive,
}

/// A value of any property.
#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    Duration(Span),
    Number(u32),
    Flag(bool),
    Text(String),
    Destination(Option<String>),
    Status(EntityStatus),
    AuthorizationRules(Vec<AuthorizationRule>),
}

/// A description that has properties: of a queue, of a topic or of a subscription.
pub trait Described: Clone + Default + std::fmt::Debug + PartialEq + Sized + 'static {
    const KIND: EntityKind;

    /// Where such a description has the field, if it does.
    fn lens<T>(field: &Field<T>) -> Option<&Lens<Self, T>>;

    /// Of an entity that is created: defaults that depend on what was given.
    fn settle_defaults(&mut self, is_given: &dyn Fn(&str) -> bool);
}

/// The field of a property in the descriptions of those entities that have it.
pub struct Field<T: 'static> {
    queue: Option<Lens<QueueProperties, T>>,
    topic: Option<Lens<TopicProperties, T>>,
    subscription: Option<Lens<SubscriptionProperties, T>>,
}

/// How a field of `P` is read and written.
pub struct Lens<P: 'static, T: 'static> {
    get: fn(&P) -> &T,
    get_mut: fn(&mut P) -> &mut T,
}

/// What a field can hold.
trait FieldValue: Clone + Sized {
    fn into_value(self) -> PropertyValue;
    fn of_value(value: PropertyValue) -> Option<Self>;
}

/// Does the same with the field of a property, whatever its type.
macro_rules! with_field {
    ($property:expr, $field:ident => $result:expr) => {
        match &$property.of {
            PropertyType::Duration { field: $field, .. } => $result,
            PropertyType::Number { field: $field, .. } => $result,
            PropertyType::Flag($field) => $result,
            PropertyType::Text { field: $field, .. } => $result,
            PropertyType::Destination($field) => $result,
            PropertyType::Status($field) => $result,
            PropertyType::AuthorizationRules($field) => $result,
        }
    };
}

impl EntityProperty {
    /// Those that entities of a kind have, in the order of the table.
    pub fn all_of(kind: EntityKind) -> impl Iterator<Item = &'static EntityProperty> {
        PROPERTIES.iter().filter(move |property| property.is_of(kind))
    }

    pub fn is_of(&self, kind: EntityKind) -> bool {
        with_field!(self, field => match kind {
            EntityKind::Queue => field.queue.is_some(),
            EntityKind::Topic => field.topic.is_some(),
            EntityKind::Subscription => field.subscription.is_some(),
        })
    }

    /// What it does to an entity of a kind: one sentence without its end.
    pub fn help(&self, kind: EntityKind) -> String {
        let more = self.particulars.iter().find(|(of, _)| *of == kind).map_or("", |(_, more)| more);
        self.help.replace("{entity}", kind.as_str()) + more
    }

    /// Of a number of bytes, what is counted.
    pub fn unit(&self) -> Option<&'static str> {
        if let PropertyType::Number { unit, .. } = self.of { unit } else { None }
    }

    /// What a description says of it; nothing, if such entities do not have it.
    pub fn get<P: Described>(&self, of: &P) -> Option<PropertyValue> {
        with_field!(self, field => field.value(of))
    }

    /// What a client gets that asks for a value.
    pub(super) fn granted(&self, value: PropertyValue) -> PropertyValue {
        match (&self.of, value) {
            (
                PropertyType::Duration { min, is_raised: true, .. },
                PropertyValue::Duration(span @ Span(1..)),
            ) => PropertyValue::Duration(span.max(*min)),
            (_, value) => value,
        }
    }

    /// # Panics
    ///
    /// If the value is of another type, or such entities do not have the property.
    pub(super) fn set<P: Described>(&self, of: &mut P, value: PropertyValue) {
        let was_set = with_field!(self, field => match (P::lens(field), FieldValue::of_value(value)) {
            (Some(lens), Some(value)) => {
                *(lens.get_mut)(of) = value;
                true
            }
            _ => false,
        });
        assert!(was_set, "{} of a {}: no such property or type", self.name, P::KIND.as_str());
    }
}

/// What two descriptions both have, from one to the other.
pub(super) fn carry<A: Described, B: Described>(from: &A, to: &mut B) {
    for property in EntityProperty::all_of(A::KIND).filter(|property| property.is_of(B::KIND)) {
        if let Some(value) = property.get(from) {
            property.set(to, value);
        }
    }
}

impl<T> Field<T> {
    pub(super) const NOWHERE: Field<T> = Field { queue: None, topic: None, subscription: None };

    /// What a description says there, if it has the field.
    pub fn of<'a, P: Described>(&self, of: &'a P) -> Option<&'a T> {
        P::lens(self).map(|lens| (lens.get)(of))
    }

    fn value<P: Described>(&self, of: &P) -> Option<PropertyValue>
    where
        T: FieldValue,
    {
        self.of(of).cloned().map(T::into_value)
    }

    pub(super) const fn queue(
        self,
        get: fn(&QueueProperties) -> &T,
        get_mut: fn(&mut QueueProperties) -> &mut T,
    ) -> Field<T> {
        Field { queue: Some(Lens { get, get_mut }), ..self }
    }

    pub(super) const fn topic(
        self,
        get: fn(&TopicProperties) -> &T,
        get_mut: fn(&mut TopicProperties) -> &mut T,
    ) -> Field<T> {
        Field { topic: Some(Lens { get, get_mut }), ..self }
    }

    pub(super) const fn subscription(
        self,
        get: fn(&SubscriptionProperties) -> &T,
        get_mut: fn(&mut SubscriptionProperties) -> &mut T,
    ) -> Field<T> {
        Field { subscription: Some(Lens { get, get_mut }), ..self }
    }
}

impl<T> std::fmt::Debug for Field<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Field { queue, topic, subscription } = self;
        let kinds = [
            (queue.is_some(), EntityKind::Queue),
            (topic.is_some(), EntityKind::Topic),
            (subscription.is_some(), EntityKind::Subscription),
        ];
        out.debug_list()
            .entries(kinds.iter().filter(|(has, _)| *has).map(|(_, kind)| kind))
            .finish()
    }
}

/// PART-1: a partitioned entity is told what one of its sixteen partitions holds, and has room for all
/// of them. What is more than one could hold was read from such an entity.
fn of_all_partitions(megabytes: u32) -> u32 {
    const OF_ONE_MAX: u32 = 5 * 1024;
    if megabytes <= OF_ONE_MAX { megabytes * 16 } else { megabytes }
}

impl<P, T> Clone for Lens<P, T> {
    fn clone(&self) -> Lens<P, T> {
        *self
    }
}

impl<P, T> Copy for Lens<P, T> {}

impl Described for QueueProperties {
    const KIND: EntityKind = EntityKind::Queue;

    fn lens<T>(field: &Field<T>) -> Option<&Lens<QueueProperties, T>> {
        field.queue.as_ref()
    }

    fn settle_defaults(&mut self, is_given: &dyn Fn(&str) -> bool) {
        if self.enable_partitioning {
            self.max_size_megabytes = of_all_partitions(self.max_size_megabytes);
            self.support_ordering &= is_given("support_ordering");
        }
    }
}

impl Described for TopicProperties {
    const KIND: EntityKind = EntityKind::Topic;

    fn lens<T>(field: &Field<T>) -> Option<&Lens<TopicProperties, T>> {
        field.topic.as_ref()
    }

    fn settle_defaults(&mut self, is_given: &dyn Fn(&str) -> bool) {
        if self.enable_partitioning {
            self.max_size_megabytes = of_all_partitions(self.max_size_megabytes);
            self.support_ordering &= is_given("support_ordering");
        }
    }
}

impl Described for SubscriptionProperties {
    const KIND: EntityKind = EntityKind::Subscription;

    fn lens<T>(field: &Field<T>) -> Option<&Lens<SubscriptionProperties, T>> {
        field.subscription.as_ref()
    }

    fn settle_defaults(&mut self, _: &dyn Fn(&str) -> bool) {}
}

macro_rules! field_values {
    ($($variant:ident: $type:ty),+ $(,)?) => {
        $(impl FieldValue for $type {
            fn into_value(self) -> PropertyValue {
                PropertyValue::$variant(self)
            }

            fn of_value(value: PropertyValue) -> Option<$type> {
                if let PropertyValue::$variant(value) = value { Some(value) } else { None }
            }
        })+
    };
}

field_values! {
    Duration: Span,
    Number: u32,
    Flag: bool,
    Text: String,
    Destination: Option<String>,
    Status: EntityStatus,
    AuthorizationRules: Vec<AuthorizationRule>,
}
