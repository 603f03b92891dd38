//! The overview: what is wrong first, then nodes, groups and what they hold.

use maud::{Markup, html};
use wire::v1;

use crate::layout::{Answered, Page, known};
use crate::text;
use crate::visit::Visit;

pub(crate) async fn show(visit: &Visit) -> Answered {
    let of_cluster = visit.rights("").await;
    let body = html! {
        h1 { "Overview" }
        @if visit.session.is_of("") {
            @let status = visit.read(v1::StatusRequest { local: false }).await;
            div #overview data-refresh { (known(&status, shown)) }
        } @else { p { "Your key is the own of " strong { (visit.session.entity()) } ": of the cluster it is told nothing." } }
        @if !of_cluster.manage { (way_in()) }
    };
    Page::new("Overview", body).answer()
}

/// For whoever may not list entities and knows one.
fn way_in() -> Markup {
    html! {
        section aria-labelledby="way-in" {
            h2 #way-in { "Go to an entity" }
            p.hint { "Your key may not list entities; it may be good for one." }
            form method="get" action="/console/messages" {
                p { label for="queue" { "Queue" } input #queue name="queue" required; }
                p { button type="submit" { "Show its messages" } }
            }
        }
    }
}

fn shown(status: &v1::StatusResponse) -> Markup {
    html! {
        section.health aria-labelledby="wrong" {
            h2 #wrong { "What is wrong" }
            @if status.wrong.is_empty() {
                p.fine { span.mark aria-hidden="true" { "✓" } " Nothing: every group has a leader that a majority confirms." }
            } @else {
                ul.wrong { @for line in &status.wrong { li { (line) } } }
            }
        }
        p.facts {
            "Cluster " code { (status.cluster_id) } ", version " (status.version) ", " (status.durability)
            @if status.development { ", development mode" }
            ". Node " (status.answered_by) " answered."
        }
        section aria-labelledby="nodes" { (nodes(status)) }
        section aria-labelledby="groups" { (groups(status)) }
    }
}

fn nodes(status: &v1::StatusResponse) -> Markup {
    html! {
        h2 #nodes { "Nodes" }
        div.wide tabindex="0" role="group" aria-labelledby="nodes" { table {
            thead { tr {
                th scope="col" { "Node" } th scope="col" { "State" } th scope="col" { "Version" }
                th scope="col" { "Up for" } th.number scope="col" { "Leads" }
                th.number scope="col" { "Replicas" } th.number scope="col" { "Free on disk" }
                th.number scope="col" { "Clock" } th scope="col" { "Zone" }
            } }
            tbody { @for node in &status.nodes { tr.bad[!node.reachable] {
                th scope="row" { (node.id) }
                td { (state(node)) @if !node.note.is_empty() { br; small { (node.note) } } }
                td { (node.version.as_deref().unwrap_or("unknown")) }
                td { (node.up_ms.map_or_else(|| "unknown".to_owned(), |ms| text::span(ms / 1000 * 1000))) }
                td.number { (node.groups_led) }
                td.number { (node.replicas) }
                td.number { (node.disk.as_ref().map_or_else(|| "unknown".to_owned(), |disk| text::bytes(disk.free_bytes))) }
                td.number { (clock(node)) }
                td { (node.zone.as_deref().unwrap_or("–")) }
            } } }
        } }
    }
}

fn state(node: &v1::NodeStatus) -> &'static str {
    use v1::NodeRole as Role;
    match (node.reachable, Role::try_from(node.role)) {
        (false, Ok(Role::Removed)) => "removed",
        (false, _) => "not reachable",
        (true, Ok(Role::Joining)) => "joining",
        (true, Ok(Role::Draining)) => "draining",
        (true, Ok(Role::Drained)) => "drained",
        (true, Ok(Role::Removed)) => "removed",
        (true, Ok(Role::Maintenance)) => "in maintenance",
        (true, Ok(Role::Active | Role::Unspecified) | Err(_)) => "active",
    }
}

fn clock(node: &v1::NodeStatus) -> String {
    match node.clock_offset_ms {
        None => "unknown".to_owned(),
        Some(ms) if node.clock_agrees => format!("{ms:+} ms"),
        Some(ms) => format!("{ms:+} ms, disagrees"),
    }
}

fn groups(status: &v1::StatusResponse) -> Markup {
    html! {
        h2 #groups { "Groups" }
        div.wide tabindex="0" role="group" aria-labelledby="groups" { table {
            thead { tr {
                th scope="col" { "Group" } th scope="col" { "Leader" } th scope="col" { "Led for" }
                th.number scope="col" { "Term" } th scope="col" { "Replicas" }
            } }
            tbody { @for group in &status.groups { tr.bad[group.leader == 0] {
                th scope="row" { (group.id) @if group.id == 0 { " (catalog)" } }
                td { @if group.leader == 0 { "none" } @else { "node " (group.leader) } }
                td { (group.led_ms.map_or_else(|| "unknown".to_owned(), |ms| text::span(ms / 1000 * 1000))) }
                td.number { (group.term) }
                td { ul.inline { @for replica in &group.replicas { li { (self::replica(replica)) } } } }
            } } }
        } }
    }
}

fn replica(replica: &v1::ReplicaStatus) -> String {
    let node = replica.node;
    match (replica.reachable, replica.voter, replica.lag) {
        (false, ..) => format!("node {node}: not reached"),
        (true, false, lag) => format!("node {node}: no vote yet, {} behind", text::count(lag)),
        (true, true, 0) => format!("node {node}"),
        (true, true, lag) => format!("node {node}: {} behind", text::count(lag)),
    }
}
