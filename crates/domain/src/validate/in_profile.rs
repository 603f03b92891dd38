//! What a namespace's profile takes of what entities are told to be, in the words in which Service Bus refuses the rest
//! (QUOTA-0).

use crate::{
    Described, EntityKind, EntityProperty, Namespace, Profile, ProfileLimits, PropertyValue,
    Refusal, Span, Tiered,
};

/// QUOTA-1, PART-1: a partitioned entity may be told what one tells, all its partitions together.
const PARTITIONS: u32 = 16;

/// A namespace, seen as one of a profile.
#[derive(Clone, Copy, Debug)]
pub struct InProfile<'a> {
    pub profile: Profile,
    pub namespace: &'a Namespace,
}

/// Why a property's value is none of a profile.
enum Misfit {
    /// QUOTA-35.
    NotSet,
    /// Least and most, as the service writes them.
    NotWithin(String, String),
}

impl InProfile<'_> {
    /// Of what is to be created.
    ///
    /// # Errors
    /// The kind of entity, or the first property, that the profile does not take.
    pub fn created<P: Described>(self, properties: &P) -> Result<(), Refusal> {
        let (namespace, limits) = (self.namespace, self.profile.limits());
        if !takes(limits, P::KIND) {
            let (kind, sku) = (told(P::KIND), limits.sku);
            let why = format!(
                "a {kind} cannot be created because the namespace '{namespace}' is using '{sku}' tier"
            );
            return Err(Refusal::Argument { what: "profile", why });
        }
        self.said("creating", properties, |_| true)
    }

    /// Of a change. What stays as it was is no matter.
    ///
    /// # Errors
    /// The first property that the profile does not take.
    pub fn changed<P: Described>(self, old: &P, new: &P) -> Result<(), Refusal> {
        self.said("updating", new, |property| property.get(old) != property.get(new))
    }

    /// QUOTA-40: what a profile does not take of what was there before: the kind of entity, or a property's name. Smaller
    /// messages than the tier lets one ask for break no promise.
    pub fn misfit<P: Described>(self, properties: &P) -> Option<&'static str> {
        let limits = self.profile.limits();
        if !takes(limits, P::KIND) {
            return Some(told(P::KIND));
        }
        let mut all = EntityProperty::all_of(P::KIND);
        let unfit = all.find(|property| misfit(limits, property, properties).is_some());
        unfit.map(|property| property.element)
    }

    /// QUOTA-3: for one more queue or topic.
    ///
    /// # Errors
    /// The namespace has as many as it may have.
    pub fn has_room(self, entities: u64) -> Result<(), Refusal> {
        match self.profile.limits().entities_max.map(u64::from) {
            Some(max) if entities >= max => Err(too_many(entities, max)),
            Some(_) | None => Ok(()),
        }
    }

    /// QUOTA-3: what is there already.
    ///
    /// # Errors
    /// They are more.
    pub fn takes_in_all(self, entities: u64) -> Result<(), Refusal> {
        match self.profile.limits().entities_max.map(u64::from) {
            Some(max) if entities > max => Err(too_many(entities, max)),
            Some(_) | None => Ok(()),
        }
    }

    fn said<P: Described>(
        self,
        doing: &str,
        properties: &P,
        is_said: impl Fn(&EntityProperty) -> bool,
    ) -> Result<(), Refusal> {
        let (namespace, limits) = (self.namespace, self.profile.limits());
        for property in EntityProperty::all_of(P::KIND).filter(|property| is_said(property)) {
            let misfit = misfit(limits, property, properties)
                .or_else(|| message_too_small(limits, property, properties));
            let (what, sku) = (property.element, limits.sku);
            let why = match misfit {
                None => continue,
                Some(Misfit::NotSet) => format!(
                    "The property '{what}' cannot be set when {doing} a {} because the namespace '{namespace}' is \
                     using '{sku}' tier",
                    told(P::KIND)
                ),
                Some(Misfit::NotWithin(min, max)) => format!(
                    "The property value for '{what}' must be between {min} and {max} when the namespace \
                     '{namespace}' is using '{sku}' tier"
                ),
            };
            return Err(Refusal::Argument { what, why });
        }
        Ok(())
    }
}

/// QUOTA-35.
fn takes(limits: &ProfileLimits, kind: EntityKind) -> bool {
    match kind {
        EntityKind::Queue => true,
        EntityKind::Topic | EntityKind::Subscription => limits.has_all_features,
    }
}

/// What is above a profile's limits, or is none of its features.
fn misfit<P: Described>(
    limits: &ProfileLimits,
    property: &EntityProperty,
    of: &P,
) -> Option<Misfit> {
    let value = property.get(of)?;
    match property.tiered {
        Tiered::Not => None,
        Tiered::Feature => (!limits.has_all_features && is_set(&value)).then_some(Misfit::NotSet),
        Tiered::Partitioning => {
            (!limits.takes_partitioned && is_set(&value)).then_some(Misfit::NotSet)
        }
        Tiered::EntitySize => {
            let partitions = if is_partitioned(of) { PARTITIONS } else { 1 };
            let max = limits.entity_megabytes_max.saturating_mul(partitions);
            let within = || Misfit::NotWithin("1024".to_owned(), max.to_string());
            (number(&value) > max).then(within)
        }
        Tiered::MessageSize => {
            (number(&value) > limits.message_kilobytes.1).then(|| not_of_messages(limits))
        }
        Tiered::TimeToLive => {
            let max = limits.default_ttl_max;
            let within = || Misfit::NotWithin("00:00:01".to_owned(), days(max));
            matches!(value, PropertyValue::Duration(ttl) if ttl > max).then(within)
        }
    }
}

/// QUOTA-5.
fn message_too_small<P: Described>(
    limits: &ProfileLimits,
    property: &EntityProperty,
    of: &P,
) -> Option<Misfit> {
    let is_small = || property.get(of).is_some_and(|it| number(&it) < limits.message_kilobytes.0);
    (property.tiered == Tiered::MessageSize && is_small()).then(|| not_of_messages(limits))
}

/// Whether a value asks for something; a duration that is for ever does not.
fn is_set(value: &PropertyValue) -> bool {
    match value {
        PropertyValue::Flag(is_set) => *is_set,
        PropertyValue::Destination(to) => to.is_some(),
        PropertyValue::Duration(span) => *span < Span::MAX,
        PropertyValue::Number(_)
        | PropertyValue::Text(_)
        | PropertyValue::Status(_)
        | PropertyValue::AuthorizationRules(_) => false,
    }
}

fn is_partitioned<P: Described>(of: &P) -> bool {
    let mut all = EntityProperty::all_of(P::KIND);
    let flag = all.find(|property| property.tiered == Tiered::Partitioning);
    flag.and_then(|flag| flag.get(of)).is_some_and(|value| is_set(&value))
}

fn number(value: &PropertyValue) -> u32 {
    if let PropertyValue::Number(number) = value { *number } else { 0 }
}

/// As the service writes a duration of whole days.
fn days(span: Span) -> String {
    format!("{}.00:00:00", span.0 / (24 * 60 * 60 * 1000))
}

/// Where there is nothing to choose, the service says that the property cannot be set.
fn not_of_messages(limits: &ProfileLimits) -> Misfit {
    let (min, max) = limits.message_kilobytes;
    match limits.sku {
        "Premium" => Misfit::NotWithin(min.to_string(), max.to_string()),
        _ => Misfit::NotSet,
    }
}

fn told(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Queue => "Queue",
        EntityKind::Topic => "Topic",
        EntityKind::Subscription => "Subscription",
    }
}

fn too_many(used: u64, max: u64) -> Refusal {
    Refusal::QuotaExceeded { what: "the namespace (queues and topics)", used, max }
}
