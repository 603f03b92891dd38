//! One queue, topic or subscription.

use auth::Rights;
use domain::{Patch, QueueProperties, SubscriptionProperties, TopicProperties};
use maud::{Markup, html};
use wire::v1;

use crate::address::{Part, Place, link};
use crate::entity_properties;
use crate::failure::Failure;
use crate::layout::{Answered, Page, known};
use crate::text;
use crate::visit::Visit;

/// What an address is about.
pub(crate) fn place(visit: &Visit) -> Result<Place, Failure> {
    Place::of(&visit.fields)
        .ok_or_else(|| Failure::bad("The address names no entity; choose one from the lists."))
}

/// Where one is.
pub(crate) fn crumbs(place: &Place) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumb" { ol {
            @match place {
                Place::Queue(_) => { li { a href="/console/queues" { "Queues" } } }
                Place::Topic(_) => { li { a href="/console/topics" { "Topics" } } }
                Place::Subscription { topic, .. } => {
                    li { a href="/console/topics" { "Topics" } }
                    li { a href=(link("entity", [("topic", topic.as_str())])) { (topic) } }
                }
            }
            li { a href=(place.link("entity", &[])) {
                @match place {
                    Place::Queue(name) | Place::Topic(name) | Place::Subscription { name, .. } => (name)
                }
            } }
        } }
    }
}

/// The pages about it that may be looked at.
pub(crate) fn tabs(place: &Place, rights: Rights, page: &str, part: Option<Part>) -> Markup {
    let tab = |to: &str, more: &[(&str, &str)], name: &str, is_here: bool| {
        html! { li { a href=(place.link(to, more)) aria-current=[is_here.then_some("page")] { (name) } } }
    };
    let is_part = |of: Part| page == "messages" && part == Some(of);
    html! {
        nav.tabs aria-label="Of this entity" { ul {
            @if rights.manage { (tab("entity", &[], "About", page == "entity")) }
            @if place.has_messages() && rights.listen {
                (tab("messages", &[], "Messages", is_part(Part::Main)))
                (tab("messages", &[("part", "dead-letter")], "Dead letters", is_part(Part::DeadLetter)))
                (tab("messages", &[("part", "transfer-dead-letter")], "Transfer dead letters", is_part(Part::TransferDeadLetter)))
                (tab("sessions", &[], "Sessions", page == "sessions"))
            }
            @if matches!(place, Place::Subscription { .. }) && rights.listen {
                (tab("rules", &[], "Rules", page == "rules"))
            }
            @if place.has_messages() && rights.listen {
                (tab("filter-tester", &[], "Filter tester", page == "filter-tester"))
            }
            @if rights.listen { (tab("history", &[], "History", page == "history")) }
            @if rights.send && !matches!(place, Place::Subscription { .. }) {
                (tab("send", &[], "Send", page == "send"))
            }
        } }
    }
}

/// What pages show of an entity, whatever it is.
struct About {
    counts: Vec<(&'static str, String)>,
    properties: Markup,
    group: u32,
    leader: u64,
    created_at_ms: u64,
    updated_at_ms: u64,
    accessed_at_ms: u64,
}

pub(crate) async fn show(visit: &Visit) -> Answered {
    let place = place(visit)?;
    let about = about(visit, &place).await?;
    let rights = visit.rights(&place.path()).await;
    let body = html! {
        (crumbs(&place))
        h1 { (place.path()) " " small { (place.kind()) } }
        (tabs(&place, rights, "entity", None))
        p.bar {
            @if rights.manage {
                a.button href=(place.link("change", &[])) { "Change" }
                a.button.danger href=(place.link("delete", &[])) { "Delete…" }
            }
            @if rights.listen && place.has_messages() {
                a.button.danger href=(place.link("purge", &[])) { "Purge messages…" }
                a.button.danger href=(place.link("purge", &[("part", "dead-letter")])) { "Purge dead letters…" }
            }
        }
        div.columns {
            div #counts data-refresh {
                table.facts { caption { "Counts" } tbody { @for (name, value) in &about.counts { tr {
                    th scope="row" { (name) } td.number { (value) }
                } } } }
                table.facts { caption { "Where and when" } tbody {
                    tr { th scope="row" { "Group" } td { (about.group) } }
                    tr { th scope="row" { "Leader" } td { @if about.leader == 0 { "unknown" } @else { "node " (about.leader) } } }
                    tr { th scope="row" { "Created (UTC)" } td { (text::instant(about.created_at_ms)) } }
                    tr { th scope="row" { "Changed (UTC)" } td { (text::instant(about.updated_at_ms)) } }
                    tr { th scope="row" { "Accessed (UTC)" } td { (text::instant(about.accessed_at_ms)) } }
                } }
            }
            div { (about.properties) }
        }
        @if let Place::Topic(topic) = &place { (subscriptions(visit, topic).await) }
    };
    Page::new(place.path(), body).answer()
}

async fn about(visit: &Visit, place: &Place) -> Result<About, Failure> {
    Ok(match place {
        Place::Queue(name) => {
            let found = visit.read(v1::GetQueueRequest { name: name.clone() }).await?;
            let properties =
                Patch::<QueueProperties>::try_from(found.properties.unwrap_or_default());
            About {
                counts: counts(&found.counters.unwrap_or_default()),
                properties: known(&properties, entity_properties::table),
                group: found.group,
                leader: found.leader_node,
                created_at_ms: found.created_at_ms,
                updated_at_ms: found.updated_at_ms,
                accessed_at_ms: found.accessed_at_ms,
            }
        }
        Place::Topic(name) => {
            let found = visit.read(v1::GetTopicRequest { name: name.clone() }).await?;
            let properties =
                Patch::<TopicProperties>::try_from(found.properties.unwrap_or_default());
            About {
                counts: topic_counts(&found.counters.unwrap_or_default()),
                properties: known(&properties, entity_properties::table),
                group: found.group,
                leader: found.leader_node,
                created_at_ms: found.created_at_ms,
                updated_at_ms: found.updated_at_ms,
                accessed_at_ms: found.accessed_at_ms,
            }
        }
        Place::Subscription { topic, name } => {
            let asked = v1::GetSubscriptionRequest { topic: topic.clone(), name: name.clone() };
            let found = visit.read(asked).await?;
            let properties = found.properties.unwrap_or_default();
            let properties = Patch::<SubscriptionProperties>::try_from(properties);
            About {
                counts: counts(&found.counters.unwrap_or_default()),
                properties: known(&properties, entity_properties::table),
                group: found.group,
                leader: found.leader_node,
                created_at_ms: found.created_at_ms,
                updated_at_ms: found.updated_at_ms,
                accessed_at_ms: found.accessed_at_ms,
            }
        }
    })
}

fn counts(counters: &v1::QueueCounters) -> Vec<(&'static str, String)> {
    let count = text::count;
    vec![
        ("Active", count(counters.active)),
        ("Available", count(counters.available)),
        ("Dead-lettered", count(counters.dead_lettered)),
        ("Scheduled", count(counters.scheduled)),
        ("Deferred", count(counters.deferred)),
        ("Transfer", count(counters.transfer)),
        ("Transfer dead-lettered", count(counters.transfer_dead_lettered)),
        ("Size", text::bytes(counters.size_bytes)),
        ("Accepted since creation", count(counters.accepted)),
        ("Completed since creation", count(counters.completed)),
        ("Deleted since creation", count(counters.deleted)),
        ("Expired since creation", count(counters.expired_dropped)),
    ]
}

fn topic_counts(counters: &v1::TopicCounters) -> Vec<(&'static str, String)> {
    let count = text::count;
    vec![
        ("Subscriptions", count(counters.subscriptions.into())),
        ("Scheduled", count(counters.scheduled)),
        ("Size", text::bytes(counters.size_bytes)),
        ("Accepted since creation", count(counters.accepted)),
        ("Published since creation", count(counters.published)),
        ("SQL filters", count(counters.sql_filters.into())),
        ("Correlation filters", count(counters.correlation_filters.into())),
    ]
}

async fn subscriptions(visit: &Visit, topic: &str) -> Markup {
    let after = visit.fields.text("after");
    let asked = v1::ListSubscriptionsRequest {
        topic: topic.to_owned(),
        page_size: 50,
        page_token: after.to_owned(),
    };
    let found = visit.read(asked).await;
    html! {
        section aria-labelledby="subscriptions" {
            h2 #subscriptions { "Subscriptions" }
            p.bar { a.button href=(link("new", [("kind", "subscription"), ("topic", topic)])) { "Create a subscription" } }
            (known(&found, |found| html! {
                (crate::entity_list::table_of_subscriptions(&found.subscriptions))
                @if !found.next_page_token.is_empty() {
                    nav.pages aria-label="Pages" {
                        a rel="next" href=(link("entity", [("topic", topic), ("after", &found.next_page_token)])) { "Next page" }
                    }
                }
            }))
        }
    }
}
