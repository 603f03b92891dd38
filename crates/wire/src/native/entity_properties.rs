//! Entities' properties (ENT-3): between the messages of the native API and the domain's patches.

use domain::{
    Described, EntityProperty, EntityStatus, Patch, PropertyType, PropertyValue, QueueProperties,
    Refusal, Span, SubscriptionProperties, TopicProperties,
};

use super::authorization::{authorization_rules, shown_rules};
use crate::v1;

/// A type of the messages' fields.
trait NativeValue: Sized {
    /// `None`: as good as absent.
    fn read(self, of: &PropertyType) -> Result<Option<PropertyValue>, Refusal>;

    /// `None`: a field of another type.
    fn written(value: PropertyValue) -> Option<Self>;
}

/// A message's fields, each a property's. One that is missing here does not compile.
macro_rules! properties {
    ($described:ident { $($field:ident),+ $(,)? }) => {
        impl TryFrom<v1::$described> for Patch<$described> {
            type Error = Refusal;

            fn try_from(given: v1::$described) -> Result<Patch<$described>, Refusal> {
                let v1::$described { $($field),+ } = given;
                let mut patch = Patch::default();
                $(read($field, stringify!($field), &mut patch)?;)+
                Ok(patch)
            }
        }

        impl From<Patch<$described>> for v1::$described {
            fn from(patch: Patch<$described>) -> v1::$described {
                v1::$described { $($field: written(&patch, stringify!($field))),+ }
            }
        }
    };
}

properties! {
    QueueProperties {
        lock_duration_ms,
        max_size_megabytes,
        max_message_size_kilobytes,
        requires_duplicate_detection,
        duplicate_detection_window_ms,
        requires_session,
        default_ttl_ms,
        auto_delete_on_idle_ms,
        dead_letter_on_expiration,
        max_delivery_count,
        status,
        user_metadata,
        enable_batched_operations,
        forward_to,
        forward_dead_letters_to,
        authorization_rules,
        support_ordering,
        enable_partitioning,
        enable_express,
    }
}

properties! {
    TopicProperties {
        max_size_megabytes,
        max_message_size_kilobytes,
        requires_duplicate_detection,
        duplicate_detection_window_ms,
        default_ttl_ms,
        auto_delete_on_idle_ms,
        status,
        user_metadata,
        enable_batched_operations,
        support_ordering,
        filter_before_publishing,
        authorization_rules,
        enable_partitioning,
        enable_express,
        enable_subscription_partitioning,
    }
}

properties! {
    SubscriptionProperties {
        lock_duration_ms,
        requires_session,
        default_ttl_ms,
        auto_delete_on_idle_ms,
        dead_letter_on_expiration,
        dead_letter_on_filter_errors,
        max_delivery_count,
        status,
        user_metadata,
        enable_batched_operations,
        forward_to,
        forward_dead_letters_to,
    }
}

fn read<P: Described>(
    given: Option<impl NativeValue>,
    field: &str,
    patch: &mut Patch<P>,
) -> Result<(), Refusal> {
    let property = property::<P>(field);
    let value = given.map_or(Ok(None), |given| given.read(&property.of))?;
    if let Some(value) = value {
        patch.set(property, value);
    }
    Ok(())
}

fn written<P: Described, T: NativeValue>(patch: &Patch<P>, field: &str) -> Option<T> {
    patch.get(property::<P>(field)).and_then(T::written)
}

fn property<P: Described>(field: &str) -> &'static EntityProperty {
    let found = EntityProperty::all_of(P::KIND).find(|property| property.native == field);
    found.expect("each field of the messages is a property's")
}

impl NativeValue for u64 {
    fn read(self, _: &PropertyType) -> Result<Option<PropertyValue>, Refusal> {
        Ok(Some(PropertyValue::Duration(Span(self))))
    }

    fn written(value: PropertyValue) -> Option<u64> {
        if let PropertyValue::Duration(Span(ms)) = value { Some(ms) } else { None }
    }
}

impl NativeValue for u32 {
    fn read(self, _: &PropertyType) -> Result<Option<PropertyValue>, Refusal> {
        Ok(Some(PropertyValue::Number(self)))
    }

    fn written(value: PropertyValue) -> Option<u32> {
        if let PropertyValue::Number(number) = value { Some(number) } else { None }
    }
}

impl NativeValue for bool {
    fn read(self, _: &PropertyType) -> Result<Option<PropertyValue>, Refusal> {
        Ok(Some(PropertyValue::Flag(self)))
    }

    fn written(value: PropertyValue) -> Option<bool> {
        if let PropertyValue::Flag(flag) = value { Some(flag) } else { None }
    }
}

impl NativeValue for String {
    fn read(self, of: &PropertyType) -> Result<Option<PropertyValue>, Refusal> {
        Ok(Some(match of {
            PropertyType::Destination(_) => {
                PropertyValue::Destination(Some(self).filter(|name| !name.is_empty()))
            }
            PropertyType::Text { .. }
            | PropertyType::Duration { .. }
            | PropertyType::Number { .. }
            | PropertyType::Flag(_)
            | PropertyType::Status(_)
            | PropertyType::AuthorizationRules(_) => PropertyValue::Text(self),
        }))
    }

    fn written(value: PropertyValue) -> Option<String> {
        match value {
            PropertyValue::Text(text) => Some(text),
            PropertyValue::Destination(name) => Some(name.unwrap_or_default()),
            PropertyValue::Duration(_)
            | PropertyValue::Number(_)
            | PropertyValue::Flag(_)
            | PropertyValue::Status(_)
            | PropertyValue::AuthorizationRules(_) => None,
        }
    }
}

/// The number of a status.
impl NativeValue for i32 {
    fn read(self, _: &PropertyType) -> Result<Option<PropertyValue>, Refusal> {
        let status = match v1::EntityStatus::try_from(self) {
            Ok(v1::EntityStatus::Unspecified) => return Ok(None),
            Ok(v1::EntityStatus::Active) => EntityStatus::Active,
            Ok(v1::EntityStatus::Disabled) => EntityStatus::Disabled,
            Ok(v1::EntityStatus::SendDisabled) => EntityStatus::SendDisabled,
            Ok(v1::EntityStatus::ReceiveDisabled) => EntityStatus::ReceiveDisabled,
            Err(_) => {
                let why = format!("{self} is no entity status");
                return Err(Refusal::Argument { what: "status", why });
            }
        };
        Ok(Some(PropertyValue::Status(status)))
    }

    fn written(value: PropertyValue) -> Option<i32> {
        let PropertyValue::Status(status) = value else { return None };
        let status = match status {
            EntityStatus::Active => v1::EntityStatus::Active,
            EntityStatus::Disabled => v1::EntityStatus::Disabled,
            EntityStatus::SendDisabled => v1::EntityStatus::SendDisabled,
            EntityStatus::ReceiveDisabled => v1::EntityStatus::ReceiveDisabled,
        };
        Some(status.into())
    }
}

impl NativeValue for v1::AuthorizationRules {
    fn read(self, _: &PropertyType) -> Result<Option<PropertyValue>, Refusal> {
        authorization_rules(self).map(|rules| Some(PropertyValue::AuthorizationRules(rules)))
    }

    fn written(value: PropertyValue) -> Option<v1::AuthorizationRules> {
        let PropertyValue::AuthorizationRules(rules) = value else { return None };
        Some(shown_rules(&rules))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    /// All that is told replaces whatever was there; nothing told leaves it.
    fn survives<P, W>(properties: &P, base: &P)
    where
        P: Described,
        W: From<Patch<P>> + Default,
        Patch<P>: TryFrom<W, Error: Debug>,
    {
        let told = W::from(Patch::of(properties.clone()));
        let read = Patch::try_from(told).expect("what was written");
        assert_eq!(read, Patch::of(properties.clone()));
        assert_eq!(read.applied_to(base.clone()), *properties);
        let nothing = Patch::try_from(W::default()).expect("nothing");
        assert!(nothing.is_empty());
        assert_eq!(nothing.applied_to(base.clone()), *base);
    }

    proptest! {
        #[test]
        fn ent_3_every_property_of_a_queue_survives_the_native_api(
            properties in arbitrary::queue_properties(),
            base in arbitrary::queue_properties(),
        ) {
            survives::<QueueProperties, v1::QueueProperties>(&properties, &base);
        }

        #[test]
        fn ent_3_every_property_of_a_topic_survives_the_native_api(
            properties in arbitrary::topic_properties(),
            base in arbitrary::topic_properties(),
        ) {
            survives::<TopicProperties, v1::TopicProperties>(&properties, &base);
        }

        #[test]
        fn ent_3_every_property_of_a_subscription_survives_the_native_api(
            properties in arbitrary::subscription_properties(),
            base in arbitrary::subscription_properties(),
        ) {
            survives::<SubscriptionProperties, v1::SubscriptionProperties>(&properties, &base);
        }

        #[test]
        fn ent_4_absent_properties_stay(base in arbitrary::queue_properties()) {
            let given = v1::QueueProperties { max_delivery_count: Some(3), ..Default::default() };
            let changed = Patch::try_from(given).unwrap().applied_to(base.clone());
            prop_assert_eq!(changed, QueueProperties { max_delivery_count: 3, ..base });
        }
    }

    #[test]
    fn an_unknown_status_is_refused_and_an_unspecified_one_is_absent() {
        let read = |status| {
            Patch::try_from(v1::QueueProperties { status: Some(status), ..Default::default() })
        };
        assert_eq!(read(99).unwrap_err().rule(), "ERR-12");
        assert!(read(0).unwrap().is_empty());
    }

    #[test]
    fn fwd_1_an_empty_destination_takes_it_off() {
        let forward_to = Some("a".to_owned());
        let base = QueueProperties { forward_to, ..Default::default() };
        let given = v1::QueueProperties { forward_to: Some(String::new()), ..Default::default() };
        let changed = Patch::try_from(given).unwrap().applied_to(base);
        assert_eq!(changed, QueueProperties::default());
    }
}
