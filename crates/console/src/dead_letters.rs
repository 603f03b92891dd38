//! Dead letters that were chosen: sent again, or deleted, once it was said how many they are.

use maud::html;
use wire::v1;

use crate::address::{Part, Place};
use crate::failure::Failure;
use crate::layout::{Answered, Page, form, hidden};
use crate::message::{self, OF_THE_BROKER};
use crate::text;
use crate::visit::Visit;

/// As many as a page shows.
const CHOSEN_MAX: usize = 250;

fn chosen(visit: &Visit) -> Result<Vec<u64>, Failure> {
    let numbers: Option<Vec<u64>> =
        visit.fields.all("number").map(|text| text.parse().ok()).collect();
    match numbers {
        None => Err(Failure::bad("A number of a message cannot be read; nothing was done.")),
        Some(numbers) if numbers.is_empty() => {
            Err(Failure::bad("No message is chosen; nothing was done."))
        }
        Some(numbers) if numbers.len() > CHOSEN_MAX => Err(Failure::bad(format!(
            "More than {CHOSEN_MAX} messages are chosen; nothing was done."
        ))),
        Some(numbers) => Ok(numbers),
    }
}

/// Asks whether it is to be done.
pub(crate) async fn ask(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let (part, numbers) = (Part::of(&visit.fields), chosen(visit)?);
    if !part.is_dead_letter() {
        return Err(Failure::bad("Only dead letters can be chosen."));
    }
    let count = numbers.len() as u64;
    let is_resubmit = visit.fields.text("what") == "resubmit";
    let title = if is_resubmit { "Resubmit" } else { "Delete" };
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { (title) " " (text::count(count)) " of the " (part.title().to_lowercase()) }
        @if is_resubmit {
            p { strong { (text::count(count)) " messages" } " will be sent to " strong { (place.target()) } " anew, and then \
                completed here. Should a node end in between, a message is in both places; a queue that detects \
                duplicates drops a copy whose message id it has seen within its window." }
        } @else {
            p.wrong { strong { (text::count(count)) " messages" } " will be deleted for good." }
        }
        (form(visit, "/console/chosen/do", html! {
            (hidden(&place.fields()))
            (hidden(&[("part", part.name()), ("what", if is_resubmit { "resubmit" } else { "delete" })]))
            @for number in &numbers { input type="hidden" name="number" value=(number); }
            p.bar {
                button.danger[!is_resubmit].primary[is_resubmit] type="submit" { (title) " " (text::count(count)) }
                a.button href=(place.link("messages", &[("part", part.name())])) { "Do nothing" }
            }
        }))
    };
    Page::new(title, body).answer()
}

pub(crate) async fn act(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let (part, numbers) = (Part::of(&visit.fields), chosen(visit)?);
    if !part.is_dead_letter() {
        return Err(Failure::bad("Only dead letters can be chosen."));
    }
    let what = visit.fields.text("what");
    let outcome = match what {
        "resubmit" => resubmit(visit, &place, part, numbers, copy).await?,
        "delete" => delete(visit, &place, part, numbers).await?,
        _ => return Err(Failure::bad("It is not said what to do; nothing was done.")),
    };
    told(&place, part, what, &outcome).answer()
}

/// What became of the chosen ones.
pub(crate) struct Outcome {
    asked: usize,
    done: usize,
    /// Why others were not done, or not to their end.
    troubles: Vec<String>,
}

pub(crate) fn told(place: &Place, part: Part, what: &str, outcome: &Outcome) -> Page {
    let verb = if what == "resubmit" { "sent again" } else { "deleted" };
    let body = html! {
        (crate::entity::crumbs(place))
        h1 { "Done" }
        p.done role="status" {
            (text::count(outcome.done as u64)) " of " (text::count(outcome.asked as u64)) " messages were " (verb) "."
        }
        @if !outcome.troubles.is_empty() {
            ul.wrong { @for trouble in &outcome.troubles { li { (trouble) } } }
        } @else if outcome.done < outcome.asked {
            p { "The others are locked by somebody, or gone by now." }
        }
        p.bar { a.button href=(place.link("messages", &[("part", part.name())])) { "Back to the " (part.title().to_lowercase()) } }
    };
    Page::new("Done", body)
}

fn asked(
    place: &Place,
    part: Part,
    mode: v1::ReceiveMode,
    numbers: Vec<u64>,
) -> v1::ReceiveDeferredRequest {
    v1::ReceiveDeferredRequest {
        queue: place.path(),
        sub_queue: part.native(),
        mode: mode.into(),
        sequence_numbers: numbers,
    }
}

async fn delete(
    visit: &Visit,
    place: &Place,
    part: Part,
    numbers: Vec<u64>,
) -> Result<Outcome, Failure> {
    let count = numbers.len();
    let mode = v1::ReceiveMode::ReceiveAndDelete;
    let taken = visit.take(asked(place, part, mode, numbers)).await?;
    Ok(Outcome { asked: count, done: taken.len(), troubles: Vec::new() })
}

/// A new message with what the application gave the old one (MSG-6, TTL-28).
pub(crate) fn copy(found: &v1::ReceivedMessage) -> v1::Message {
    let mut message = message::content(found);
    message.ttl_ms = found.sent_ttl_ms;
    message.scheduled_at_ms = None;
    message.properties.retain(|name, _| !OF_THE_BROKER.contains(&name.as_str()));
    message
}

/// Takes each under a lock, sends its copy, and completes it; one that cannot be sent is released.
pub(crate) async fn resubmit(
    visit: &Visit,
    place: &Place,
    part: Part,
    numbers: Vec<u64>,
    copy: impl Fn(&v1::ReceivedMessage) -> v1::Message,
) -> Result<Outcome, Failure> {
    use v1::settlement::Disposition;
    // Before anything is taken: whoever may not send there is told so, and no message is held up.
    let target = place.target().to_owned();
    if !visit.rights(&target).await.send {
        let why = format!("Your key has no right 'Send' on {target}; nothing was done.");
        return Err(Failure::new(axum::http::StatusCode::FORBIDDEN, why));
    }
    let mut outcome = Outcome { asked: numbers.len(), done: 0, troubles: Vec::new() };
    let taken = visit.take(asked(place, part, v1::ReceiveMode::PeekLock, numbers)).await?;
    let mut settlements = Vec::new();
    for found in &taken {
        let send =
            v1::SendRequest { queue: target.clone(), messages: vec![copy(found)], origin: None };
        let disposition = match visit.change(send).await {
            Ok(_) => {
                outcome.done += 1;
                Disposition::Complete(v1::Complete {})
            }
            Err(error) => {
                let number = found.sequence_number;
                outcome.troubles.push(format!("Message {number} stays here: {}", error.text));
                Disposition::Release(v1::Release {})
            }
        };
        let lock_token = found.lock_token.clone().unwrap_or_default();
        settlements.push(v1::Settlement { lock_token, disposition: Some(disposition) });
    }
    let settle = v1::SettleRequest {
        queue: place.path(),
        sub_queue: part.native(),
        settlements,
        atomic: false,
        origin: None,
    };
    if taken.is_empty() {
        return Ok(outcome);
    }
    let why = match visit.change(settle).await {
        Ok(answer) => answer
            .failures
            .into_iter()
            .next()
            .map(|failure| failure.failure.unwrap_or_default().message),
        Err(error) => Some(error.text),
    };
    outcome.troubles.extend(why.map(|why| {
        format!("Some were sent again and could not be completed here, so that they are in both places: {why}")
    }));
    Ok(outcome)
}
