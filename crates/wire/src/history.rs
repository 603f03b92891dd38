//! Steps of messages' lives: in words, and where they were.

use crate::v1::MessageEvent;
use crate::v1::message_event::Step;

/// Between a topic and the name of one of its subscriptions.
const SUBSCRIPTIONS: &str = "/subscriptions/";

/// A step as people read it; `instant` says how other instants are told. None: this release does not know it.
pub fn step_text(event: &MessageEvent, instant: impl Fn(u64) -> String) -> Option<String> {
    let place = &event.entity;
    Some(match event.step.as_ref()? {
        Step::Accepted(of) => {
            let mut text = match of.scheduled_for_ms {
                Some(at_ms) => format!("accepted by {place}, to come out at {}", instant(at_ms)),
                None => format!("accepted by {place}"),
            };
            text += &format!(" as number {}", event.sequence_number);
            if of.hops > 0 {
                text += &format!(", after {} hop{}", of.hops, if of.hops == 1 { "" } else { "s" });
            }
            if !of.correlation_id.is_empty() {
                text += &format!(", correlation id '{}'", of.correlation_id);
            }
            text
        }
        Step::Activated(of) => {
            format!("came out as number {}{}", event.sequence_number, late(of.late_ms))
        }
        Step::Cancelled(_) => "its schedule was cancelled".to_owned(),
        Step::Locked(of) => format!(
            "locked until {} for {} from {place}, delivery {}",
            instant(of.until_ms),
            if of.receiver.is_empty() { "a receiver" } else { &of.receiver },
            of.delivery_count + 1
        ),
        Step::LockRenewed(of) => format!("its lock was renewed until {}", instant(of.until_ms)),
        Step::Completed(of) if of.on_delivery => "deleted as it was delivered".to_owned(),
        Step::Completed(_) => format!("completed in {place}"),
        Step::Abandoned(of) => {
            format!("given back as failed, delivery count {}", of.delivery_count)
        }
        Step::Released(_) => "given back, uncounted".to_owned(),
        Step::LockLapsed(of) => {
            let late = late(of.late_ms);
            format!("its lock lapsed{late}, delivery count {}", of.delivery_count)
        }
        Step::Deferred(_) => "deferred".to_owned(),
        Step::DeadLettered(of) => match of.description.as_str() {
            "" => format!("dead-lettered: {}", of.reason),
            description => format!("dead-lettered: {}: {description}", of.reason),
        },
        Step::Expired(of) => format!("expired{}", late(of.late_ms)),
        Step::Deleted(_) => "deleted by a batch delete".to_owned(),
        Step::Forwarded(_) => format!("forwarded from {place}"),
        Step::EntityDeleted(_) => format!("{place} was deleted"),
        Step::Published(of) => format!("handed out in {} copies", of.copies),
    })
}

fn late(late_ms: u64) -> String {
    format!(", {late_ms} ms late")
}

/// What a step is called, as fields of the record are.
pub fn step_name(step: &Step) -> &'static str {
    match step {
        Step::Accepted(_) => "accepted",
        Step::Activated(_) => "activated",
        Step::Cancelled(_) => "cancelled",
        Step::Locked(_) => "locked",
        Step::LockRenewed(_) => "lock_renewed",
        Step::Completed(_) => "completed",
        Step::Abandoned(_) => "abandoned",
        Step::Released(_) => "released",
        Step::LockLapsed(_) => "lock_lapsed",
        Step::Deferred(_) => "deferred",
        Step::DeadLettered(_) => "dead_lettered",
        Step::Expired(_) => "expired",
        Step::Deleted(_) => "deleted",
        Step::Forwarded(_) => "forwarded",
        Step::EntityDeleted(_) => "entity_deleted",
        Step::Published(_) => "published",
    }
}

/// The queue of a subqueue, or the entity itself.
pub fn main_of(path: &str) -> &str {
    match path.find("/$") {
        Some(at) => &path[..at],
        None => path,
    }
}

/// Whether an entity, by its path, is `named`, or a subscription of the topic that is: names differ in no more than case.
pub fn is_of(entity: &str, named: &str) -> bool {
    let Some((start, rest)) = entity.split_at_checked(named.len()) else { return false };
    let is_subscription =
        || rest.get(..SUBSCRIPTIONS.len()).is_some_and(|it| it.eq_ignore_ascii_case(SUBSCRIPTIONS));
    start.eq_ignore_ascii_case(named) && (rest.is_empty() || is_subscription())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_stands_for_its_subscriptions() {
        for (entity, named, expected) in [
            ("orders", "Orders", true),
            ("orders2", "orders", false),
            ("prices/subscriptions/eur", "prices", true),
            ("prices/Subscriptions/eur", "prices/subscriptions/EUR", true),
            ("prices/subscriptions/eur", "prices/subscriptions/usd", false),
            ("q", "prices", false),
        ] {
            assert_eq!(is_of(entity, named), expected, "{entity} {named}");
        }
    }
}
