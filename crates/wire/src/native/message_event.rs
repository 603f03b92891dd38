//! What happened to messages (HIST).

use domain::{
    AcceptedMessage, GroupId, LifeStep, LockToken, MessageEvent, MessageTexts, SubQueue, Timestamp,
};

use crate::v1::{self, message_event::Step};

/// A step that happened in an entry of a group's log, which `leader` proposed.
pub fn message_event(
    group: GroupId,
    index: u64,
    at: Timestamp,
    leader: u64,
    event: &MessageEvent,
) -> v1::MessageEvent {
    v1::MessageEvent {
        at_ms: at.0,
        group: u32::from(group.0),
        index,
        entity: path(event),
        sequence_number: event.number.0,
        leader,
        step: Some(step(event, at)),
    }
}

fn path(event: &MessageEvent) -> String {
    let below = match event.sub {
        SubQueue::Main => "",
        SubQueue::DeadLetter => "/$deadletterqueue",
        SubQueue::Transfer => "/$transfer",
        SubQueue::TransferDeadLetter => "/$transfer/$deadletterqueue",
    };
    format!("{}{below}", event.entity)
}

fn instant(at: Timestamp) -> Option<u64> {
    (at != Timestamp::NEVER).then_some(at.0)
}

fn step(event: &MessageEvent, at: Timestamp) -> Step {
    let late_ms = event.step.late(at).map_or(0, |late| late.0);
    match &event.step {
        LifeStep::Accepted(accepted) => Step::Accepted(shown(accepted)),
        LifeStep::Activated { scheduled_as, expires_at, due: _ } => {
            let (scheduled_as, expires_at_ms) = (scheduled_as.0, instant(*expires_at));
            Step::Activated(v1::MessageActivated { scheduled_as, late_ms, expires_at_ms })
        }
        LifeStep::Cancelled => Step::Cancelled(v1::MessageCancelled {}),
        LifeStep::Published { copies } => Step::Published(v1::MessagePublished { copies: *copies }),
        LifeStep::Locked { nonce, until, delivery_count, receiver } => {
            let token = LockToken { sequence: event.number, nonce: *nonce };
            Step::Locked(v1::MessageLocked {
                lock_token: token.to_string(),
                until_ms: until.0,
                delivery_count: *delivery_count,
                receiver: format!("node {}, link {}", receiver.node, receiver.number()),
            })
        }
        LifeStep::LockRenewed { until } => {
            Step::LockRenewed(v1::MessageLockRenewed { until_ms: until.0 })
        }
        LifeStep::Completed { on_delivery } => {
            Step::Completed(v1::MessageCompleted { on_delivery: *on_delivery })
        }
        LifeStep::Abandoned { delivery_count } => {
            Step::Abandoned(v1::MessageAbandoned { delivery_count: *delivery_count })
        }
        LifeStep::Released => Step::Released(v1::MessageReleased {}),
        LifeStep::LockLapsed { delivery_count, until: _ } => {
            let delivery_count = *delivery_count;
            Step::LockLapsed(v1::MessageLockLapsed { late_ms, delivery_count })
        }
        LifeStep::Deferred => Step::Deferred(v1::MessageDeferred {}),
        LifeStep::DeadLettered { reason, description, due: _ } => {
            let (reason, description) = (reason.to_string(), description.to_string());
            Step::DeadLettered(v1::MessageDeadLettered { reason, description })
        }
        LifeStep::Expired { due: _ } => Step::Expired(v1::MessageExpired { late_ms }),
        LifeStep::Deleted => Step::Deleted(v1::MessageDeleted {}),
        LifeStep::Forwarded { serial: _, position: _ } => Step::Forwarded(v1::MessageForwarded {}),
        LifeStep::EntityDeleted => Step::EntityDeleted(v1::EntityDeletedEvent {}),
    }
}

fn shown(accepted: &AcceptedMessage) -> v1::MessageAccepted {
    let MessageTexts { message_id, correlation_id, session_id, subject, reply_to } =
        &*accepted.texts;
    let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
    v1::MessageAccepted {
        message_id: text(message_id),
        correlation_id: text(correlation_id),
        session_id: text(session_id),
        subject: text(subject),
        reply_to: text(reply_to),
        size_bytes: accepted.size_bytes,
        scheduled_for_ms: accepted.scheduled_for.map(|at| at.0),
        expires_at_ms: accepted.expires_at.and_then(instant),
        published_as: accepted.published_as.map(|number| number.0),
        hops: accepted.hops,
    }
}
