//! The rules of a subscription.

use domain::RuleFilter;
use maud::{Markup, html};
use wire::{native, v1};

use crate::address::Place;
use crate::failure::Failure;
use crate::layout::{Answered, Page, done, form, hidden, known};
use crate::visit::Visit;

const RULES_MAX: u32 = 1000;

pub(crate) fn sql_rule(name: String, text: String) -> v1::Rule {
    let sql = v1::Sql { text, parameters: Default::default() };
    let filter = v1::Filter { kind: Some(v1::filter::Kind::Sql(sql)) };
    v1::Rule { name, filter: Some(filter), action: None, created_at_ms: 0 }
}

/// A subscription, as rules are of nothing else.
fn subscription(visit: &Visit) -> Result<(String, String), Failure> {
    match crate::entity::place(visit)? {
        Place::Subscription { topic, name } => Ok((topic, name)),
        Place::Queue(_) | Place::Topic(_) => Err(Failure::bad("Only subscriptions have rules.")),
    }
}

/// A filter as SQL.
pub(crate) fn filter_text(rule: &v1::Rule) -> String {
    let read = native::rule_from_v1(rule.clone()).map(|rule| match rule.filter {
        // As it was written.
        RuleFilter::Sql(sql) => sql.text,
        filter => {
            filter.compile().map_or_else(|error| error.to_string(), |filter| filter.to_string())
        }
    });
    read.unwrap_or_else(|refusal| refusal.to_string())
}

pub(crate) async fn show(visit: &Visit) -> Answered {
    let (topic, subscription) = subscription(visit)?;
    let place = Place::Subscription { topic: topic.clone(), name: subscription.clone() };
    let asked = v1::ListRulesRequest { topic, subscription, skip: 0, top: RULES_MAX };
    let rules = visit.read(asked).await;
    let rights = visit.rights(&place.path()).await;
    let row = |rule: &v1::Rule| row(visit, &place, rule);
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { "Rules " small { (place.path()) } }
        (crate::entity::tabs(&place, rights, "rules", None))
        (known(&rules, |rules| html! {
            @if rules.rules.is_empty() { p { "There are none: no message comes in." } } @else {
                div.wide tabindex="0" role="group" aria-label="Rules" { table {
                    caption { "Rules: a message comes in by each that it matches" }
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Filter" } th scope="col" { "Action" } th scope="col" { "Do" } } }
                    tbody { @for rule in &rules.rules { (row(rule)) } }
                } }
            }
        }))
        h2 { "Add a rule" }
        (form(visit, "/console/rules", html! {
            (hidden(&place.fields()))
            p { label for="rule" { "Name" } input #rule name="rule" required autocomplete="off"; }
            p { label for="filter" { "Filter, as SQL" } textarea #filter name="filter" rows="3" required {} }
            p.bar { button.primary type="submit" { "Add" } }
        }))
    };
    Page::new(format!("Rules of {}", place.path()), body).answer()
}

fn row(visit: &Visit, place: &Place, rule: &v1::Rule) -> Markup {
    let filter = filter_text(rule);
    let tester = place.link("filter-tester", &[("expression", &filter)]);
    html! { tr {
        th scope="row" { (rule.name) }
        td { code { (filter) } }
        td { code { (rule.action.as_ref().map_or("–", |action| &action.text)) } }
        td { div.bar {
            a.button href=(tester) { "Test" }
            (form(visit, "/console/rules/remove", html! {
                (hidden(&place.fields()))
                (hidden(&[("rule", &rule.name)]))
                button.danger type="submit" data-confirm={ "Remove the rule " (rule.name) "? Messages come in by it no more." } { "Remove" }
            }))
        } }
    } }
}

pub(crate) async fn put(visit: &Visit) -> Answered {
    let (topic, subscription) = subscription(visit)?;
    let text = visit.fields.text("filter").trim().to_owned();
    let rule = Some(sql_rule(visit.fields.text("rule").trim().to_owned(), text));
    let place = Place::Subscription { topic: topic.clone(), name: subscription.clone() };
    visit.change(v1::PutRuleRequest { topic, subscription, rule, replace: false }).await?;
    done(place.link("rules", &[]), "rule-put")
}

pub(crate) async fn remove(visit: &Visit) -> Answered {
    let (topic, subscription) = subscription(visit)?;
    let rule = visit.fields.text("rule").to_owned();
    let place = Place::Subscription { topic: topic.clone(), name: subscription.clone() };
    visit.change(v1::RemoveRuleRequest { topic, subscription, rule }).await?;
    done(place.link("rules", &[]), "rule-removed")
}
