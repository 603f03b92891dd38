//! Deployments, their modules and their operations, as Resource Manager tells them.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use definitions::duration;
use domain::Timestamp;
use serde_json::{Value, json};

use super::plan::{DEPLOYMENTS, Plan, Tried};
use crate::ask::{LOCATION, Requester};
use crate::namespaces;
use crate::records::{self, Operation, Record, State};

/// Modules in modules, as the evaluation has it.
const DEPTH_MAX: usize = 16;

pub(super) fn id(requester: &Requester, record: &Record) -> String {
    format!("{}/providers/{DEPLOYMENTS}/{}", requester.group_id(&record.group), record.name)
}

pub(super) fn instant(at_ms: u64) -> String {
    namespaces::instant(Timestamp(at_ms))
}

fn span(from_ms: u64, to_ms: u64) -> String {
    duration::show_iso_8601_ms(to_ms.saturating_sub(from_ms))
}

pub(super) fn deployment(requester: &Requester, record: &Record) -> Value {
    let ended_at = record.ended_at.unwrap_or_else(|| requester.broker.cluster().now_here().0.0);
    let mut made = Vec::new();
    add_made(requester, record, 0, &mut made);
    let kinds: Vec<&str> = made.iter().map(|(kind, _)| kind.as_str()).collect();
    let mut properties = json!({
        "templateHash": record.template_hash,
        "parameters": record.parameters,
        "mode": "Incremental",
        "provisioningState": record.state.name(),
        "timestamp": instant(ended_at),
        "duration": span(record.started_at, ended_at),
        "correlationId": record.run,
        "providers": providers(&kinds),
        "dependencies": [],
    });
    if record.state == State::Succeeded {
        properties["outputs"] = json!(record.outputs);
    }
    if record.state.is_over() {
        let ids: Vec<Value> = made.iter().map(|(_, id)| json!({"id": id})).collect();
        properties["outputResources"] = json!(ids);
    }
    if let Some(error) = &record.error {
        properties["error"] = error.clone();
    }
    json!({
        "id": id(requester, record),
        "name": record.name,
        "type": DEPLOYMENTS,
        "properties": properties,
    })
}

/// Kinds and ids of what was made, that of modules included.
fn add_made(
    requester: &Requester,
    record: &Record,
    depth: usize,
    made: &mut Vec<(String, String)>,
) {
    for operation in records::operations(&requester.broker, &record.run) {
        if operation.kind.eq_ignore_ascii_case(DEPLOYMENTS) {
            let module = records::find(&requester.broker, &record.group, &operation.name);
            if let Some(module) = module.filter(|_| depth < DEPTH_MAX) {
                add_made(requester, &module.record, depth + 1, made);
            }
        } else if operation.state == State::Succeeded {
            let id = resource_id(requester, record, &operation);
            made.push((operation.kind, id));
        }
    }
}

fn resource_id(requester: &Requester, record: &Record, operation: &Operation) -> String {
    let (provider, types) = operation.kind.split_once('/').unwrap_or((&operation.kind, ""));
    let start = format!("{}/providers/{provider}", requester.group_id(&record.group));
    let pairs = types.split('/').zip(operation.name.split('/'));
    pairs.fold(start, |id, (kind, name)| format!("{id}/{kind}/{name}"))
}

fn providers(kinds: &[&str]) -> Value {
    let types: BTreeSet<&str> =
        kinds.iter().filter_map(|kind| kind.split_once('/').map(|(_, kind)| kind)).collect();
    let shown: Vec<Value> = types
        .into_iter()
        .map(|kind| json!({"resourceType": kind, "locations": [LOCATION]}))
        .collect();
    match shown.is_empty() {
        true => json!([]),
        false => json!([{"namespace": "Microsoft.ServiceBus", "resourceTypes": shown}]),
    }
}

pub(super) fn operations(requester: &Requester, record: &Record) -> Vec<Value> {
    let all = records::operations(&requester.broker, &record.run);
    all.iter().map(|operation| self::operation(requester, record, operation)).collect()
}

fn operation(requester: &Requester, record: &Record, operation: &Operation) -> Value {
    let status = StatusCode::from_u16(operation.status).unwrap_or_default();
    let reason = status.canonical_reason().unwrap_or_default().replace(' ', "");
    let ended_at = operation.ended_at.unwrap_or_else(|| requester.broker.cluster().now_here().0.0);
    let mut properties = json!({
        "provisioningOperation": "Create",
        "provisioningState": operation.state.name(),
        "timestamp": instant(ended_at),
        "duration": span(operation.started_at, ended_at),
        "trackingId": record.run,
        "statusCode": reason,
        "targetResource": {
            "id": resource_id(requester, record, operation),
            "resourceType": operation.kind,
            "resourceName": operation.name,
        },
    });
    if let Some(error) = &operation.error {
        properties["statusMessage"] = json!({"status": "Failed", "error": error});
    }
    json!({
        "id": format!("{}/operations/{}", id(requester, record), operation.id),
        "operationId": operation.id,
        "properties": properties,
    })
}

/// What would be deployed.
pub(super) fn validated(plan: &Plan, tried: &Tried) -> Value {
    let evaluation = &tried.evaluation;
    let made: Vec<_> =
        evaluation.resources.iter().filter(|resource| !resource.is_existing).collect();
    let kinds: Vec<&str> = made.iter().map(|resource| resource.kind.as_str()).collect();
    let ids: Vec<Value> = made.iter().map(|resource| json!({"id": plan.id(resource)})).collect();
    json!({
        "id": plan.deployment_id(&plan.name),
        "name": plan.name,
        "type": DEPLOYMENTS,
        "properties": {
            "templateHash": plan.request.template_hash(),
            "parameters": evaluation.parameters,
            "mode": "Incremental",
            "provisioningState": "Succeeded",
            "timestamp": instant(plan.started_at),
            "duration": "PT0S",
            "correlationId": uuid::Uuid::from_bytes(service::draw_uuid()).to_string(),
            "providers": providers(&kinds),
            "dependencies": [],
            "validatedResources": ids,
        },
    })
}
