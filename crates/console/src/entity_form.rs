//! Creating and changing entities.

use domain::{Described, Patch, QueueProperties, SubscriptionProperties, TopicProperties};
use maud::{Markup, html};
use wire::v1;

use crate::address::Place;
use crate::entity_properties::{changed, fields};
use crate::failure::Failure;
use crate::layout::{Answer, Answered, Page, done, form, hidden};
use crate::visit::Visit;

pub(crate) async fn ask_new(visit: &Visit) -> Answered {
    new_page(visit, None).answer()
}

/// With what was typed, where it was refused.
fn new_page(visit: &Visit, failure: Option<&Failure>) -> Page {
    let (kind, topic) = (visit.fields.text("kind"), visit.fields.text("topic"));
    let title = match kind {
        "topic" => "Create a topic".to_owned(),
        "subscription" => format!("Create a subscription of {topic}"),
        _ => "Create a queue".to_owned(),
    };
    let asked = match kind {
        "topic" => fields(&TopicProperties::default(), true, &visit.fields),
        "subscription" => fields(&SubscriptionProperties::default(), true, &visit.fields),
        _ => fields(&QueueProperties::default(), true, &visit.fields),
    };
    let body = html! {
        h1 { (title) }
        (alert(failure))
        (form(visit, "/console/new", html! {
            (hidden(&[("kind", kind), ("topic", topic)]))
            p { label for="name" { "Name" } input #name name="name" required value=(visit.fields.text("name")) autocomplete="off"; }
            @if kind == "subscription" {
                p { label for="filter" { "Filter of its first rule, as SQL; empty takes everything" }
                    input #filter name="filter" value=(visit.fields.text("filter")) autocomplete="off"; }
            }
            fieldset { legend { "Properties" } div.grid { (asked) } }
            p.bar { button.primary type="submit" { "Create" } }
        }))
    };
    with_status(Page::new(title, body), failure)
}

fn alert(failure: Option<&Failure>) -> Markup {
    html! { @if let Some(failure) = failure { p.wrong role="alert" { (failure.text) } } }
}

fn with_status(page: Page, failure: Option<&Failure>) -> Page {
    match failure {
        Some(failure) => Page { status: failure.status, ..page },
        None => page,
    }
}

pub(crate) async fn create(visit: &Visit) -> Answered {
    match created(visit).await {
        Ok(place) => done(place.link("entity", &[]), "created"),
        Err(failure) => Ok(Answer::Page(new_page(visit, Some(&failure)))),
    }
}

async fn created(visit: &Visit) -> Result<Place, Failure> {
    let name = visit.fields.text("name").trim().to_owned();
    let request = 0;
    match visit.fields.text("kind") {
        "topic" => {
            let patch = changed(&TopicProperties::default(), &visit.fields)?;
            let properties = Some(patch.into());
            visit
                .change(v1::CreateTopicRequest { name: name.clone(), properties, request })
                .await?;
            Ok(Place::Topic(name))
        }
        "subscription" => {
            let patch = changed(&SubscriptionProperties::default(), &visit.fields)?;
            let topic = visit.fields.text("topic").to_owned();
            let (properties, rule) = (Some(patch.into()), first_rule(visit.fields.text("filter")));
            let asked = v1::CreateSubscriptionRequest {
                topic: topic.clone(),
                name: name.clone(),
                properties,
                rule,
                request,
            };
            visit.change(asked).await?;
            Ok(Place::Subscription { topic, name })
        }
        _ => {
            let patch = changed(&QueueProperties::default(), &visit.fields)?;
            let properties = Some(patch.into());
            visit
                .change(v1::CreateQueueRequest { name: name.clone(), properties, request })
                .await?;
            Ok(Place::Queue(name))
        }
    }
}

/// `None`: the one that takes everything.
fn first_rule(filter: &str) -> Option<v1::Rule> {
    let text = Some(filter.trim()).filter(|text| !text.is_empty())?.to_owned();
    Some(crate::rules::sql_rule(domain::DEFAULT_RULE.to_owned(), text))
}

pub(crate) async fn ask_change(visit: &Visit) -> Answered {
    change_page(visit, None).await?.answer()
}

async fn change_page(visit: &Visit, failure: Option<&Failure>) -> Result<Page, Failure> {
    let place = crate::entity::place(visit)?;
    let asked = match &place {
        Place::Queue(name) => fields(&queue(visit, name).await?, false, &visit.fields),
        Place::Topic(name) => fields(&topic(visit, name).await?, false, &visit.fields),
        Place::Subscription { topic, name } => {
            fields(&subscription(visit, topic, name).await?, false, &visit.fields)
        }
    };
    let title = format!("Change {}", place.path());
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { (title) }
        (alert(failure))
        (form(visit, "/console/change", html! {
            (hidden(&place.fields()))
            fieldset { legend { "Properties" } div.grid { (asked) } }
            p.bar { button.primary type="submit" { "Change" } a.button href=(place.link("entity", &[])) { "Do nothing" } }
        }))
        p.hint { "What is fixed when an entity is created is not asked for here." }
    };
    Ok(with_status(Page::new(title, body), failure))
}

pub(crate) async fn change(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    match change_now(visit, &place).await {
        Ok(()) => done(place.link("entity", &[]), "changed"),
        Err(failure) => Ok(Answer::Page(change_page(visit, Some(&failure)).await?)),
    }
}

async fn change_now(visit: &Visit, place: &Place) -> Result<(), Failure> {
    match place.clone() {
        Place::Queue(name) => {
            let patch = changed(&queue(visit, &name).await?, &visit.fields)?;
            let properties = Some(patch.into());
            visit.change(v1::UpdateQueueRequest { name, properties }).await?;
        }
        Place::Topic(name) => {
            let patch = changed(&topic(visit, &name).await?, &visit.fields)?;
            let properties = Some(patch.into());
            visit.change(v1::UpdateTopicRequest { name, properties }).await?;
        }
        Place::Subscription { topic, name } => {
            let patch = changed(&subscription(visit, &topic, &name).await?, &visit.fields)?;
            let properties = Some(patch.into());
            visit.change(v1::UpdateSubscriptionRequest { topic, name, properties }).await?;
        }
    }
    Ok(())
}

async fn queue(visit: &Visit, name: &str) -> Result<QueueProperties, Failure> {
    let found = visit.read(v1::GetQueueRequest { name: name.to_owned() }).await?;
    described(Patch::try_from(found.properties.unwrap_or_default()))
}

async fn topic(visit: &Visit, name: &str) -> Result<TopicProperties, Failure> {
    let found = visit.read(v1::GetTopicRequest { name: name.to_owned() }).await?;
    described(Patch::try_from(found.properties.unwrap_or_default()))
}

async fn subscription(
    visit: &Visit,
    topic: &str,
    name: &str,
) -> Result<SubscriptionProperties, Failure> {
    let asked = v1::GetSubscriptionRequest { topic: topic.to_owned(), name: name.to_owned() };
    let found = visit.read(asked).await?;
    described(Patch::try_from(found.properties.unwrap_or_default()))
}

fn described<P: Described>(patch: Result<Patch<P>, domain::Refusal>) -> Result<P, Failure> {
    let patch = patch.map_err(|refusal| Failure::bad(refusal.to_string()))?;
    Ok(patch.applied_to(P::default()))
}
