//! The cluster's status for people and for programs.

use client::v1;
use serde_json::{Value, json};

use crate::input::{duration, instant};
use crate::terminal;

/// Where nodes have zones.
const ZONE_COLUMN: usize = 3;

pub fn print(status: &v1::StatusResponse) -> anyhow::Result<()> {
    let mode = if status.development { ", development mode" } else { "" };
    terminal::line(format!(
        "cluster {}, version {}, durability {}{mode} (answered by node {})\n",
        status.cluster_id, status.version, status.durability, status.answered_by
    ))?;
    for wrong in &status.wrong {
        terminal::line(format!("WRONG: {wrong}"))?;
    }
    if !status.wrong.is_empty() {
        terminal::line("")?;
    }
    let zoned = status.nodes.iter().any(|node| node.zone.is_some());
    let nodes = status.nodes.iter().map(|node| {
        let mut row = vec![
            node.id.to_string(),
            if node.reachable { "up" } else { "not reachable" }.to_owned(),
            role_name(node.role()).to_owned(),
            node.version.clone().unwrap_or_else(unknown),
            node.up_ms.map_or_else(unknown, duration::show_about_ms),
            certificates(node),
            node.clock_offset_ms.map_or_else(unknown, duration::show_offset_ms),
            node.disk.as_ref().map_or_else(unknown, |disk| terminal::bytes(disk.free_bytes)),
            node.replicas.to_string(),
            node.groups_led.to_string(),
            node.grpc_address.clone(),
            node.http_address.clone(),
            node.peer_address.clone(),
            node.note.clone(),
        ];
        if zoned {
            row.insert(ZONE_COLUMN, node.zone.clone().unwrap_or_default());
        }
        row
    });
    let mut header = vec![
        "node",
        "state",
        "role",
        "version",
        "up",
        "certificate until",
        "clock",
        "disk free",
        "holds",
        "leads",
        "grpc",
        "http",
        "peers",
        "note",
    ];
    let mut right = [0, 7, 8, 9];
    if zoned {
        header.insert(ZONE_COLUMN, "zone");
        right[1..].iter_mut().for_each(|column| *column += 1);
    }
    terminal::line(terminal::table(&header, &right, nodes.collect()))?;
    terminal::line("")?;
    let groups = status.groups.iter().map(|group| {
        let leader = if group.leader == 0 { "none".into() } else { group.leader.to_string() };
        let replicas: Vec<String> = group.replicas.iter().map(replica).collect();
        let led = match group.leader {
            0 => String::new(),
            _ => group.led_ms.map_or_else(unknown, duration::show_about_ms),
        };
        vec![group_name(group.id), leader, led, group.term.to_string(), replicas.join("  ")]
    });
    let header = ["group", "leader", "for", "term", "replicas (node: applied, flushed, behind)"];
    terminal::line(terminal::table(&header, &[1, 3], groups.collect()))
}

fn unknown() -> String {
    "?".to_owned()
}

/// The day on which the first of a node's certificates ends; nothing where it has none.
fn certificates(node: &v1::NodeStatus) -> String {
    if node.version.is_none() {
        return unknown();
    }
    let first = node.certificates.iter().map(|end| end.at_s).min();
    first.map_or_else(String::new, day)
}

/// In UTC, as 2026-01-31.
fn day(at_s: i64) -> String {
    let at = instant::show_ms(u64::try_from(at_s).unwrap_or(0).saturating_mul(1000));
    at.split('T').next().unwrap_or_default().to_owned()
}

/// As tables call it.
pub fn role_name(role: v1::NodeRole) -> &'static str {
    match role {
        v1::NodeRole::Unspecified => "?",
        v1::NodeRole::Joining => "joining",
        v1::NodeRole::Active => "active",
        v1::NodeRole::Maintenance => "maintenance",
        v1::NodeRole::Draining => "draining",
        v1::NodeRole::Drained => "drained",
        v1::NodeRole::Removed => "removed",
    }
}

fn group_name(id: u32) -> String {
    if id == 0 { "catalog".to_owned() } else { id.to_string() }
}

fn replica(replica: &v1::ReplicaStatus) -> String {
    if !replica.reachable {
        return format!("{}: ?", replica.node);
    }
    let v1::ReplicaStatus { node, applied_index, flushed_index, lag, voter, .. } = replica;
    let learner = if *voter { "" } else { " (no vote yet)" };
    format!("{node}: {applied_index}, {flushed_index}, {lag}{learner}")
}

pub fn as_json(status: &v1::StatusResponse) -> Value {
    let node = |node: &v1::NodeStatus| {
        json!({
            "id": node.id,
            "reachable": node.reachable,
            "role": role_name(node.role()),
            "replicas": node.replicas,
            "groups_led": node.groups_led,
            "clock_offset_ms": node.clock_offset_ms,
            "clock_agrees": node.clock_agrees,
            "grpc_address": node.grpc_address,
            "http_address": node.http_address,
            "peer_address": node.peer_address,
            "note": node.note,
            "version": node.version,
            "zone": node.zone,
            "feature_level": node.feature_level,
            "up_ms": node.up_ms,
            "certificates": node.certificates.iter().map(|end| json!({
                "use": end.r#use,
                "until": day(end.at_s),
                "expires_at_s": end.at_s,
            })).collect::<Vec<_>>(),
            "disk": node.disk.as_ref().map(|disk| json!({
                "free_bytes": disk.free_bytes,
                "reserve_bytes": disk.reserve_bytes,
                "low": disk.low,
            })),
        })
    };
    let replica = |replica: &v1::ReplicaStatus| {
        json!({
            "node": replica.node,
            "reachable": replica.reachable,
            "last_log_index": replica.last_log_index,
            "applied_index": replica.applied_index,
            "flushed_index": replica.flushed_index,
            "purged_index": replica.purged_index,
            "lag": replica.lag,
            "voter": replica.voter,
        })
    };
    let group = |group: &v1::GroupStatus| {
        json!({
            "id": group.id,
            "leader": group.leader,
            "term": group.term,
            "led_ms": group.led_ms,
            "replicas": group.replicas.iter().map(replica).collect::<Vec<_>>(),
        })
    };
    json!({
        "cluster_id": status.cluster_id,
        "version": status.version,
        "durability": status.durability,
        "development": status.development,
        "answered_by": status.answered_by,
        "feature_level": status.feature_level,
        "data_groups": status.data_groups,
        "wrong": status.wrong,
        "nodes": status.nodes.iter().map(node).collect::<Vec<_>>(),
        "groups": status.groups.iter().map(group).collect::<Vec<_>>(),
    })
}
