//! A deployment that is carried out, or a module of it: its record, and what was done with each resource.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use service::{Broker, draw_uuid};
use uuid::Uuid;

use super::inner_ask::Reply;
use super::shown;
use crate::failure::Failure;
use crate::records::{self, OPERATIONS_OF_PART, Operation, Record, State, Stored};

/// Of what a resource was refused for, so that all fit into a document.
const MESSAGE_CHARS_MAX: usize = 300;

pub(super) struct Unit {
    pub record: Record,
    pub operations: Vec<Operation>,
    /// Parts of the operations that are not written as they are now.
    changed: Vec<usize>,
}

impl Unit {
    pub fn new(record: Record, operations: Vec<Operation>) -> Unit {
        Unit { record, operations, changed: Vec::new() }
    }

    /// A module of another; one that was begun before goes on, and one of another deployment makes room.
    ///
    /// # Errors
    /// One of another deployment has that name and runs, or the catalog does not answer.
    pub async fn of_module(
        root: &Record,
        name: &str,
        broker: &Broker,
        now_ms: u64,
    ) -> Result<Unit, Failure> {
        let of = Some((root.name.clone(), root.run.clone()));
        match records::find(broker, &root.group, name) {
            Some(Stored { record, .. }) if record.of == of => {
                let operations = records::operations(broker, &record.run);
                return Ok(Unit::new(Record { owner: root.owner, ..record }, operations));
            }
            Some(before) => {
                let is_own = before.record.of.as_ref().is_some_and(|(of, _)| *of == root.name);
                if !is_own && before.is_carried_out(now_ms) {
                    return Err(active(&before.record));
                }
                records::forget(broker, &root.group, name).await?;
            }
            None => records::make_room(broker).await?,
        }
        let record = Record {
            group: root.group.clone(),
            name: name.to_owned(),
            run: Uuid::from_bytes(draw_uuid()).to_string(),
            of,
            state: State::Running,
            started_at: now_ms,
            owner: root.owner,
            host: root.host.clone(),
            ..Record::default()
        };
        Ok(Unit::new(record, Vec::new()))
    }

    pub fn begin(&mut self, at: &str, kind: &str, name: &str, now_ms: u64) {
        let index = self.operations.iter().position(|one| one.at == at);
        let index = index.unwrap_or(self.operations.len());
        let operation = Operation {
            id: format!("{:016X}", index + 1),
            at: at.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            state: State::Running,
            status: 202,
            error: None,
            started_at: now_ms,
            ended_at: None,
        };
        match self.operations.get_mut(index) {
            Some(known) => *known = operation,
            None => self.operations.push(operation),
        }
        self.touch(index);
    }

    /// What came of it.
    pub fn end(&mut self, at: &str, told: &Reply, now_ms: u64) {
        let Some(index) = self.operations.iter().position(|one| one.at == at) else { return };
        let operation = &mut self.operations[index];
        operation.status = told.status.as_u16();
        operation.error = told.error().map(|error| abridged(&error));
        let is_done = operation.error.is_none();
        operation.state = if is_done { State::Succeeded } else { State::Failed };
        operation.ended_at = Some(now_ms);
        self.touch(index);
    }

    pub fn state_of(&self, at: &str) -> Option<State> {
        self.operations.iter().find(|one| one.at == at).map(|one| one.state)
    }

    /// How it ended.
    pub fn finish(
        &mut self,
        state: State,
        outputs: Map<String, Value>,
        error: Option<Value>,
        now_ms: u64,
    ) {
        self.record.state = state;
        self.record.outputs = told(outputs);
        self.record.error = error;
        self.record.ended_at = Some(now_ms);
        for index in 0..self.operations.len() {
            if !self.operations[index].state.is_over() {
                self.operations[index].state = state;
                self.operations[index].ended_at = Some(now_ms);
                self.touch(index);
            }
        }
    }

    fn touch(&mut self, operation: usize) {
        let part = operation / OPERATIONS_OF_PART;
        if !self.changed.contains(&part) {
            self.changed.push(part);
        }
    }

    /// Writes what changed, and that it is still carried out.
    ///
    /// # Errors
    /// It is too large, or the catalog does not answer; then it is written the next time.
    pub async fn write(&mut self, broker: &Broker) -> Result<(), Failure> {
        while let Some(part) = self.changed.last().copied() {
            let from = part * OPERATIONS_OF_PART;
            let to = (from + OPERATIONS_OF_PART).min(self.operations.len());
            let operations = &self.operations[from..to];
            records::put_operations(broker, &self.record.run, part, operations).await?;
            self.changed.pop();
        }
        self.record.beats += 1;
        self.record.operation_parts = self.operations.len().div_ceil(OPERATIONS_OF_PART);
        records::put(broker, &self.record).await
    }

    /// Of each resource that was refused.
    pub fn failures(&self) -> Vec<Value> {
        self.operations.iter().filter_map(|operation| operation.error.clone()).collect()
    }
}

/// One cannot be put in the place of one that runs.
pub(super) fn active(record: &Record) -> Failure {
    let message = format!(
        "Unable to edit or replace deployment '{}': it has been running since '{}'.",
        record.name,
        shown::instant(record.started_at)
    );
    Failure::new(StatusCode::CONFLICT, "DeploymentActive", message)
}

/// Secrets are not told again.
fn told(outputs: Map<String, Value>) -> Map<String, Value> {
    let is_secret = |of: &Value| {
        let kind = of["type"].as_str().unwrap_or_default();
        kind.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("secure"))
    };
    let tell = |(name, of): (String, Value)| match is_secret(&of) {
        true => (name, json!({"type": of["type"]})),
        false => (name, of),
    };
    outputs.into_iter().map(tell).collect()
}

fn abridged(error: &Value) -> Value {
    let text = |member: &str| error[member].as_str().unwrap_or_default();
    let message: String = text("message").chars().take(MESSAGE_CHARS_MAX).collect();
    json!({"code": text("code"), "message": message})
}
