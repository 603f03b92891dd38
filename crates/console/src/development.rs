//! What is for development mode: faults that clients meet, and the cluster's time.

use maud::{Markup, html};
use wire::v1;

use crate::failure::Failure;
use crate::layout::{Answered, Page, done, form, hidden, known};
use crate::text;
use crate::visit::Visit;

pub(crate) async fn show(visit: &Visit) -> Answered {
    let of_cluster = visit.rights("").await;
    let body = html! {
        h1 { "Development" }
        @if of_cluster.operate { (clock(visit).await) }
        @if of_cluster.inject_faults { (faults(visit).await) }
        @if !of_cluster.operate && !of_cluster.inject_faults {
            p { "Your key has neither the right 'Operate', which moves the clock, nor 'InjectFaults'." }
        }
    };
    Page::new("Development", body).answer()
}

async fn clock(visit: &Visit) -> Markup {
    let now = visit.read(v1::NowRequest {}).await;
    html! {
        section aria-labelledby="clock" {
            h2 #clock { "Clock" }
            (known(&now, |now| html! {
                p { "The cluster's time is " time { (text::instant(now.now_ms)) } " UTC"
                    @if now.offset_ms > 0 { ", moved ahead by " (text::span(now.offset_ms)) } "." }
            }))
            (form(visit, "/console/clock", html! {
                p { label for="by" { "Move it ahead by" } input #by name="by" required placeholder="1h" autocomplete="off"; }
                p.bar { button type="submit" data-confirm="The cluster's time never runs back. Move it ahead?" { "Move it" } }
            }))
            p.hint { "It never runs back. What is due by then expires, is delivered or is released." }
        }
    }
}

pub(crate) async fn advance(visit: &Visit) -> Answered {
    let by_ms = text::parse_span(visit.fields.text("by")).map_err(Failure::bad)?;
    visit.change(v1::AdvanceClockRequest { by_ms }).await?;
    done("/console/development".to_owned(), "clock")
}

async fn faults(visit: &Visit) -> Markup {
    let found = visit.read(v1::ListFaultRulesRequest {}).await;
    html! {
        section aria-labelledby="faults" {
            h2 #faults { "Faults" }
            (known(&found, |found| table(visit, found)))
            h3 { "Add a fault" }
            (form(visit, "/console/faults", html! {
                p { label for="name" { "Name" } input #name name="name" required autocomplete="off"; }
                p { label for="rule" { "Rule, as " code { "mayfly fault add" } " takes it in JSON" }
                    textarea #rule name="rule" rows="4" required {} }
                p.bar { button type="submit" { "Add" } }
            }))
        }
    }
}

fn table(visit: &Visit, found: &v1::ListFaultRulesResponse) -> Markup {
    html! {
        @if !found.silent.is_empty() {
            p.unknown { "Nodes that did not answer, whose counts are missing: "
                @for node in &found.silent { (node) " " } }
        }
        @if found.rules.is_empty() { p { "There are none." } } @else {
            div.wide tabindex="0" role="group" aria-label="Faults" { table {
                caption { "Faults that clients meet" }
                thead { tr { th scope="col" { "Name" } th scope="col" { "Rule" } th.number scope="col" { "Events" }
                    th.number scope="col" { "Met" } th scope="col" { "Ends (UTC)" } th scope="col" { "Do" } } }
                tbody { @for rule in &found.rules { tr {
                    th scope="row" { (rule.name) }
                    td { code { (rule.rule) } }
                    td.number { (text::count(rule.events)) }
                    td.number { (text::count(rule.hits)) }
                    td { (rule.ends_at_ms.map_or_else(|| "never".to_owned(), text::instant)) }
                    td { (form(visit, "/console/faults/remove", html! {
                        (hidden(&[("name", &rule.name)])) button.danger type="submit" { "Remove" }
                    })) }
                } } }
            } }
        }
    }
}

pub(crate) async fn put_fault(visit: &Visit) -> Answered {
    let (name, rule) = (visit.fields.text("name").trim(), visit.fields.text("rule"));
    visit.change(v1::PutFaultRuleRequest { name: name.to_owned(), rule: rule.to_owned() }).await?;
    done("/console/development".to_owned(), "fault-put")
}

pub(crate) async fn remove_fault(visit: &Visit) -> Answered {
    let name = visit.fields.given("name").ok_or_else(|| Failure::bad("No fault is named."))?;
    visit.change(v1::RemoveFaultRulesRequest { name: name.to_owned() }).await?;
    done("/console/development".to_owned(), "faults-removed")
}
