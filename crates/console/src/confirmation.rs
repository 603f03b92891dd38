//! What destroys something: a page says how much it is, and it is done only to whoever types that.

use std::time::{Duration, Instant};

use maud::{Markup, html};
use wire::v1;

use crate::address::{Part, Place};
use crate::failure::Failure;
use crate::layout::{Answered, Page, done, form, hidden};
use crate::text;
use crate::visit::Visit;

/// What one call deletes at most.
const BATCH: u64 = 4000;
/// For so long a request goes on deleting; then it says how far it came.
const DELETE_FOR: Duration = Duration::from_secs(45);

/// What a deletion would take.
async fn counters(visit: &Visit, place: &Place) -> Result<v1::QueueCounters, Failure> {
    let found = match place {
        Place::Queue(name) => {
            visit.read(v1::GetQueueRequest { name: name.clone() }).await?.counters
        }
        Place::Subscription { topic, name } => {
            let asked = v1::GetSubscriptionRequest { topic: topic.clone(), name: name.clone() };
            visit.read(asked).await?.counters
        }
        Place::Topic(_) => None,
    };
    Ok(found.unwrap_or_default())
}

fn of_part(counters: &v1::QueueCounters, part: Part) -> u64 {
    match part {
        Part::Main => counters.available,
        Part::DeadLetter => counters.available_dead_letter,
        Part::TransferDeadLetter => counters.available_transfer_dead_letter,
    }
}

/// A form that is sent by whoever typed what is asked for.
fn ask(
    visit: &Visit,
    action: &str,
    place: &Place,
    part: Option<Part>,
    typed: &str,
    what: &str,
) -> Markup {
    form(
        visit,
        action,
        html! {
            (hidden(&place.fields()))
            @if let Some(part) = part { (hidden(&[("part", part.name())])) }
            input type="hidden" name="asked" value=(typed);
            p { label for="typed" { "Type " strong { (typed) } " to confirm" }
                input #typed name="typed" required autocomplete="off"; }
            p.bar {
                button.danger type="submit" { (what) }
                a.button href=(place.link("entity", &[])) { "Do nothing" }
            }
        },
    )
}

fn check(visit: &Visit) -> Result<&str, Failure> {
    let (asked, typed) = (visit.fields.text("asked"), visit.fields.text("typed").trim());
    match typed == asked && !asked.is_empty() {
        true => Ok(asked),
        false => Err(Failure::bad(format!(
            "'{typed}' is not what was asked for, '{asked}'; nothing was deleted."
        ))),
    }
}

pub(crate) async fn ask_purge(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let part = Part::of(&visit.fields);
    let count = of_part(&counters(visit, &place).await?, part);
    let title = format!("Purge the {} of {}", part.title().to_lowercase(), place.path());
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { (title) }
        @if count == 0 { p { "There is nothing that can be deleted: it is empty, or all is locked, scheduled or deferred." } } @else {
            p.wrong { strong { (text::count(count)) " messages" } " will be deleted for good, the oldest first. What is \
                locked, scheduled or deferred stays." }
            (ask(visit, "/console/purge", &place, Some(part), &count.to_string(), "Delete them"))
        }
    };
    Page::new(title, body).answer()
}

/// Deletes as many as were counted, and not what came since.
pub(crate) async fn purge(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let part = Part::of(&visit.fields);
    let wanted: u64 = check(visit)?.parse().map_err(|_| Failure::bad("The count is no number."))?;
    let (begun, mut deleted, mut failure) = (Instant::now(), 0u64, None);
    while deleted < wanted && begun.elapsed() < DELETE_FOR {
        let max = BATCH.min(wanted - deleted) as u32;
        let asked = v1::DeleteBatchRequest {
            queue: place.path(),
            sub_queue: part.native(),
            max_messages: max,
            enqueued_before_ms: None,
        };
        match visit.change(asked).await {
            Ok(answer) if answer.deleted == 0 => break,
            Ok(answer) => deleted += u64::from(answer.deleted),
            Err(error) if deleted == 0 => return Err(error.into()),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { "Purged" }
        p.done role="status" { (text::count(deleted)) " messages of " (text::count(wanted)) " were deleted." }
        @if let Some(failure) = failure { p.wrong role="alert" { "Then it stopped: " (failure.text) } }
        @else if deleted < wanted { p { "The others were taken, locked or expired meanwhile, or time ran out." } }
        p.bar { a.button href=(place.link("messages", &[("part", part.name())])) { "See what is there" } }
    };
    Page::new("Purged", body).answer()
}

pub(crate) async fn ask_delete(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let (what, name) = (place.kind(), place.path());
    let lost = match &place {
        Place::Topic(topic) => {
            let found = visit.read(v1::GetTopicRequest { name: topic.clone() }).await?;
            let counters = found.counters.unwrap_or_default();
            format!(
                "{} subscriptions with all their messages, and {} scheduled messages",
                text::count(counters.subscriptions.into()),
                text::count(counters.scheduled)
            )
        }
        Place::Queue(_) | Place::Subscription { .. } => {
            let counters = counters(visit, &place).await?;
            format!(
                "{} messages, {} of them dead letters",
                text::count(counters.total),
                text::count(counters.dead_lettered)
            )
        }
    };
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { "Delete " (name) }
        p.wrong { "The " (what) " will be deleted for good, with " strong { (lost) } "." }
        (ask(visit, "/console/delete", &place, None, &name, "Delete it"))
    };
    Page::new(format!("Delete {name}"), body).answer()
}

pub(crate) async fn delete(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let asked = check(visit)?;
    if asked != place.path() {
        return Err(Failure::bad("The form is about another entity; nothing was deleted."));
    }
    match place {
        Place::Queue(name) => {
            visit.change(v1::DeleteQueueRequest { name }).await?;
            done("/console/queues".to_owned(), "deleted")
        }
        Place::Topic(name) => {
            visit.change(v1::DeleteTopicRequest { name }).await?;
            done("/console/topics".to_owned(), "deleted")
        }
        Place::Subscription { topic, name } => {
            visit.change(v1::DeleteSubscriptionRequest { topic: topic.clone(), name }).await?;
            done(Place::Topic(topic).link("entity", &[]), "deleted")
        }
    }
}
