//! Queues and topics, a page at a time, by the beginning of their names.

use maud::{Markup, html};
use wire::v1;

use crate::address::{Place, link};
use crate::layout::{Answered, Page, known};
use crate::text;
use crate::visit::Visit;

const PAGE: u32 = 50;

pub(crate) async fn queues(visit: &Visit) -> Answered {
    let (after, prefix) = (visit.fields.text("after"), visit.fields.text("prefix"));
    let asked = v1::ListQueuesRequest {
        page_size: PAGE,
        page_token: after.to_owned(),
        name_prefix: prefix.to_lowercase(),
    };
    let found = visit.read(asked).await;
    let next = found.as_ref().ok().map(|found| found.next_page_token.clone());
    let table = known(&found, |found| table_of_queues(&found.queues));
    page(visit, "queues", "Queues", table, next.as_deref())
}

pub(crate) async fn topics(visit: &Visit) -> Answered {
    let (after, prefix) = (visit.fields.text("after"), visit.fields.text("prefix"));
    let asked = v1::ListTopicsRequest {
        page_size: PAGE,
        page_token: after.to_owned(),
        name_prefix: prefix.to_lowercase(),
    };
    let found = visit.read(asked).await;
    let next = found.as_ref().ok().map(|found| found.next_page_token.clone());
    let table = known(&found, |found| table_of_topics(&found.topics));
    page(visit, "topics", "Topics", table, next.as_deref())
}

fn page(visit: &Visit, page: &str, title: &str, table: Markup, next: Option<&str>) -> Answered {
    let prefix = visit.fields.text("prefix");
    let is_later = visit.fields.given("after").is_some();
    let body = html! {
        h1 { (title) }
        form.bar method="get" action=(link(page, [])) role="search" {
            label for="prefix" { "Names that begin with" }
            input #prefix name="prefix" type="search" value=(prefix);
            button type="submit" { "Show" }
            a.button href=(link("new", [("kind", &page[..page.len() - 1])])) { "Create a " (&page[..page.len() - 1]) }
        }
        div #list data-refresh { (table) }
        nav.pages aria-label="Pages" {
            @if is_later { a href=(link(page, [("prefix", prefix)])) { "First page" } }
            @if let Some(next) = next.filter(|next| !next.is_empty()) {
                a rel="next" href=(link(page, [("prefix", prefix), ("after", next)])) { "Next page" }
            }
        }
    };
    Page::new(title, body).answer()
}

fn table_of_queues(queues: &[v1::Queue]) -> Markup {
    let row = |queue: &v1::Queue| {
        let place = Place::Queue(queue.name.clone());
        counted(&place, &queue.name, queue.counters.unwrap_or_default())
    };
    table_of_counted("Queues", &queues.iter().map(row).collect::<Vec<_>>())
}

pub(crate) fn table_of_subscriptions(subscriptions: &[v1::Subscription]) -> Markup {
    let row = |found: &v1::Subscription| {
        let place = Place::Subscription { topic: found.topic.clone(), name: found.name.clone() };
        counted(&place, &found.name, found.counters.unwrap_or_default())
    };
    table_of_counted("Subscriptions", &subscriptions.iter().map(row).collect::<Vec<_>>())
}

fn table_of_counted(caption: &str, rows: &[Markup]) -> Markup {
    html! {
        @if rows.is_empty() { p { "There are none." } } @else {
            div.wide tabindex="0" role="group" aria-label=(caption) { table {
                caption { (caption) ", in the order of their names" }
                thead { tr {
                    th scope="col" { "Name" } th.number scope="col" { "Active" }
                    th.number scope="col" { "Dead letters" } th.number scope="col" { "Scheduled" }
                    th.number scope="col" { "Deferred" } th.number scope="col" { "Size" }
                } }
                tbody { @for row in rows { (row) } }
            } }
        }
    }
}

fn counted(place: &Place, name: &str, counters: v1::QueueCounters) -> Markup {
    html! { tr {
        th scope="row" { a href=(place.link("entity", &[])) { (name) } }
        td.number { a href=(place.link("messages", &[])) { (text::count(counters.active)) } }
        td.number.bad[counters.dead_lettered > 0] {
            a href=(place.link("messages", &[("part", "dead-letter")])) { (text::count(counters.dead_lettered)) }
        }
        td.number { (text::count(counters.scheduled)) }
        td.number { (text::count(counters.deferred)) }
        td.number { (text::bytes(counters.size_bytes)) }
    } }
}

fn table_of_topics(topics: &[v1::Topic]) -> Markup {
    html! {
        @if topics.is_empty() { p { "There are none." } } @else {
            div.wide tabindex="0" role="group" aria-label="Topics" { table {
                caption { "Topics, in the order of their names" }
                thead { tr {
                    th scope="col" { "Name" } th.number scope="col" { "Subscriptions" }
                    th.number scope="col" { "Accepted" } th.number scope="col" { "Published" }
                    th.number scope="col" { "Scheduled" } th.number scope="col" { "Size" }
                } }
                tbody { @for topic in topics { (topic_row(topic)) } }
            } }
        }
    }
}

fn topic_row(topic: &v1::Topic) -> Markup {
    let counters = topic.counters.unwrap_or_default();
    let place = Place::Topic(topic.name.clone());
    html! { tr {
        th scope="row" { a href=(place.link("entity", &[])) { (topic.name) } }
        td.number { (counters.subscriptions) }
        td.number { (text::count(counters.accepted)) }
        td.number { (text::count(counters.published)) }
        td.number { (text::count(counters.scheduled)) }
        td.number { (text::bytes(counters.size_bytes)) }
    } }
}
