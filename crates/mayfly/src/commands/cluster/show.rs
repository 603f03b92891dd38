//! The cluster's status for people and for programs.

use client::v1;
use serde_json::{Value, json};

use crate::input::duration;
use crate::terminal;

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
    let nodes = status.nodes.iter().map(|node| {
        vec![
            node.id.to_string(),
            if node.reachable { "up" } else { "not reachable" }.to_owned(),
            role(node.role()).to_owned(),
            node.replicas.to_string(),
            node.groups_led.to_string(),
            node.disk.as_ref().map_or_else(String::new, |disk| terminal::bytes(disk.free_bytes)),
            node.clock_offset_ms.map_or_else(|| "?".to_owned(), duration::show_offset_ms),
            node.grpc_address.clone(),
            node.http_address.clone(),
            node.peer_address.clone(),
            node.note.clone(),
        ]
    });
    let header = [
        "node",
        "state",
        "role",
        "holds",
        "leads",
        "disk free",
        "clock",
        "grpc",
        "http",
        "peers",
        "note",
    ];
    terminal::line(terminal::table(&header, &[0, 3, 4, 5], nodes.collect()))?;
    terminal::line("")?;
    let groups = status.groups.iter().map(|group| {
        let leader = if group.leader == 0 { "none".into() } else { group.leader.to_string() };
        let replicas: Vec<String> = group.replicas.iter().map(replica).collect();
        vec![group_name(group.id), leader, group.term.to_string(), replicas.join("  ")]
    });
    let header = ["group", "leader", "term", "replicas (node: applied, flushed, behind)"];
    terminal::line(terminal::table(&header, &[1, 2], groups.collect()))
}

fn role(role: v1::NodeRole) -> &'static str {
    match role {
        v1::NodeRole::Unspecified => "?",
        v1::NodeRole::Joining => "joining",
        v1::NodeRole::Active => "active",
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
            "role": role(node.role()),
            "replicas": node.replicas,
            "groups_led": node.groups_led,
            "clock_offset_ms": node.clock_offset_ms,
            "clock_agrees": node.clock_agrees,
            "grpc_address": node.grpc_address,
            "http_address": node.http_address,
            "peer_address": node.peer_address,
            "note": node.note,
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
            "replicas": group.replicas.iter().map(replica).collect::<Vec<_>>(),
        })
    };
    json!({
        "cluster_id": status.cluster_id,
        "version": status.version,
        "durability": status.durability,
        "development": status.development,
        "answered_by": status.answered_by,
        "wrong": status.wrong,
        "nodes": status.nodes.iter().map(node).collect::<Vec<_>>(),
        "groups": status.groups.iter().map(group).collect::<Vec<_>>(),
    })
}
