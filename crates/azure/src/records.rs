//! What is kept of deployments, as documents of the cluster, each bounded: its record, what it did with each resource, and
//! while it runs what was asked for, so that any node can carry it on.

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use service::Broker;

use crate::failure::Failure;

const RECORDS: &str = "azure/deployments/";
const REQUESTS: &str = "azure/deployment-requests/";
const OPERATIONS: &str = "azure/deployment-operations/";
const CANCELS: &str = "azure/deployment-cancels/";
/// Deployments that are kept, of all groups; the oldest one that is over makes room.
const RECORDS_MAX: usize = 200;
/// Documents that they take, all together, before one more.
const DOCUMENTS_MAX: usize = 800;
/// A node that carries one out says so at least every few seconds; one that has not said so for so long has ended, in
/// milliseconds.
const SILENT_MS: u64 = 10_000;
/// Of one document's text, in bytes.
const PART_BYTES_MAX: usize = 40 * 1024;
/// Operations that one document has. The message of an error is abridged, so that they fit.
pub(crate) const OPERATIONS_OF_PART: usize = 40;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    #[default]
    Accepted,
    Running,
    Succeeded,
    Failed,
    Canceled,
}

impl State {
    pub fn is_over(self) -> bool {
        match self {
            State::Accepted | State::Running => false,
            State::Succeeded | State::Failed | State::Canceled => true,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            State::Accepted => "Accepted",
            State::Running => "Running",
            State::Succeeded => "Succeeded",
            State::Failed => "Failed",
            State::Canceled => "Canceled",
        }
    }
}

/// A deployment, or a module of one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Record {
    pub group: String,
    pub name: String,
    /// Which run of it: each time it is put it is another.
    pub run: String,
    /// Of the deployment that it is a module of: its name and its run.
    pub of: Option<(String, String)>,
    pub state: State,
    pub started_at: u64,
    pub ended_at: Option<u64>,
    /// The node that carries it out, and how often that has said so.
    pub owner: u64,
    pub beats: u64,
    /// The host that was asked for it.
    pub host: String,
    /// Documents that what was asked for takes.
    pub request_parts: usize,
    /// And what was done.
    pub operation_parts: usize,
    pub template_hash: String,
    pub parameters: Map<String, Value>,
    pub outputs: Map<String, Value>,
    pub error: Option<Value>,
}

/// What was done with one resource, or module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operation {
    pub id: String,
    /// Where it stands in the template.
    pub at: String,
    pub kind: String,
    pub name: String,
    pub state: State,
    pub status: u16,
    pub error: Option<Value>,
    pub started_at: u64,
    pub ended_at: Option<u64>,
}

/// A record, and when it was written last.
pub(crate) struct Stored {
    pub record: Record,
    pub modified_at: Timestamp,
}

impl Stored {
    /// Whether somebody is at it, as far as is known.
    pub fn is_carried_out(&self, now_ms: u64) -> bool {
        !self.record.state.is_over() && now_ms.saturating_sub(self.modified_at.0) <= SILENT_MS
    }

    /// Whether it is not over, and nobody is at it.
    pub fn is_silent(&self, now_ms: u64) -> bool {
        !self.record.state.is_over() && !self.is_carried_out(now_ms)
    }
}

fn group_prefix(group: &str) -> String {
    format!("{RECORDS}{}/", group.to_lowercase())
}

fn document(group: &str, name: &str) -> String {
    format!("{}{}", group_prefix(group), name.to_lowercase())
}

pub(crate) fn find(broker: &Broker, group: &str, name: &str) -> Option<Stored> {
    let row = broker.documents().get(&document(group, name))?;
    let record = serde_json::from_str(&row.text.0).ok()?;
    Some(Stored { record, modified_at: row.modified_at })
}

/// Of a group, the last one first.
pub(crate) fn all(broker: &Broker, group: &str) -> Vec<Record> {
    let mut records = list(broker, &group_prefix(group));
    records.sort_by_key(|record| std::cmp::Reverse(record.started_at));
    records
}

pub(crate) fn names(broker: &Broker, group: &str) -> Vec<String> {
    list(broker, &group_prefix(group)).into_iter().map(|record| record.name).collect()
}

fn list(broker: &Broker, prefix: &str) -> Vec<Record> {
    let rows = broker.documents().list(prefix);
    rows.iter().filter_map(|row| serde_json::from_str(&row.text.0).ok()).collect()
}

/// # Errors
/// It is too large, or the catalog does not answer.
pub(crate) async fn put(broker: &Broker, record: &Record) -> Result<(), Failure> {
    let text = serde_json::to_string(record).unwrap_or_default();
    if text.len() > PART_BYTES_MAX {
        return Err(Failure::bad(format!(
            "The parameters and outputs of the deployment have more than {PART_BYTES_MAX} bytes."
        )));
    }
    broker.documents().put(&document(&record.group, &record.name), text, false).await?;
    Ok(())
}

/// Makes room for one more: the oldest that is over is forgotten.
///
/// # Errors
/// The catalog does not answer.
pub(crate) async fn make_room(broker: &Broker) -> Result<(), Failure> {
    let mut records = list(broker, RECORDS);
    records.sort_by_key(|record| std::cmp::Reverse(record.started_at));
    let parts = |record: &Record| 1 + record.request_parts + record.operation_parts;
    let mut count = records.len();
    let mut documents: usize = records.iter().map(parts).sum();
    while count >= RECORDS_MAX || documents >= DOCUMENTS_MAX {
        let Some(index) = records.iter().rposition(|record| record.state.is_over()) else { break };
        let oldest = records.remove(index);
        forget(broker, &oldest.group, &oldest.name).await?;
        (count, documents) = (count - 1, documents - parts(&oldest));
    }
    Ok(())
}

/// What was asked for, in pieces that a document holds each.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let mut end = rest.len().min(PART_BYTES_MAX);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Keeps what was asked for. The record that counts its pieces is kept by then, so that nothing stays of it for ever.
///
/// # Errors
/// There are too many documents, or the catalog does not answer.
pub(crate) async fn put_request(
    broker: &Broker,
    run: &str,
    pieces: &[&str],
) -> Result<(), Failure> {
    for (index, piece) in pieces.iter().enumerate() {
        let name = part_of(REQUESTS, run, index);
        broker.documents().put(&name, (*piece).to_owned(), false).await?;
    }
    Ok(())
}

/// None: it is over, and that was forgotten.
pub(crate) fn request(broker: &Broker, record: &Record) -> Option<String> {
    let part = |index| broker.documents().get(&part_of(REQUESTS, &record.run, index));
    let parts = (0..record.request_parts).map(|index| part(index).map(|row| row.text.0));
    parts.collect()
}

/// # Errors
/// The catalog does not answer.
pub(crate) async fn forget_request(broker: &Broker, record: &Record) -> Result<(), Failure> {
    for index in 0..record.request_parts {
        broker.documents().remove(&part_of(REQUESTS, &record.run, index)).await?;
    }
    if is_cancelled(broker, &record.run) {
        broker.documents().remove(&format!("{CANCELS}{}", record.run)).await?;
    }
    Ok(())
}

fn part_of(prefix: &str, run: &str, index: usize) -> String {
    format!("{prefix}{run}/{index:04}")
}

/// Keeps a part of the operations, by its index.
///
/// # Errors
/// The catalog does not answer.
pub(crate) async fn put_operations(
    broker: &Broker,
    run: &str,
    index: usize,
    operations: &[Operation],
) -> Result<(), Failure> {
    let text = serde_json::to_string(operations).unwrap_or_default();
    broker.documents().put(&part_of(OPERATIONS, run, index), text, false).await?;
    Ok(())
}

pub(crate) fn operations(broker: &Broker, run: &str) -> Vec<Operation> {
    let rows = broker.documents().list(&format!("{OPERATIONS}{run}/"));
    let parts = rows.iter().filter_map(|row| serde_json::from_str::<Vec<_>>(&row.text.0).ok());
    parts.flatten().collect()
}

/// Tells whoever carries it out that it is to end.
///
/// # Errors
/// The catalog does not answer.
pub(crate) async fn cancel(broker: &Broker, run: &str) -> Result<(), Failure> {
    broker.documents().put(&format!("{CANCELS}{run}"), "cancelled".to_owned(), false).await?;
    Ok(())
}

pub(crate) fn is_cancelled(broker: &Broker, run: &str) -> bool {
    broker.documents().get(&format!("{CANCELS}{run}")).is_some()
}

/// # Errors
/// The catalog does not answer.
pub(crate) async fn forget(broker: &Broker, group: &str, name: &str) -> Result<(), Failure> {
    let Some(Stored { record, .. }) = find(broker, group, name) else { return Ok(()) };
    broker.documents().remove(&document(group, name)).await?;
    forget_request(broker, &record).await?;
    for row in broker.documents().list(&format!("{OPERATIONS}{}/", record.run)) {
        broker.documents().remove(&row.name).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_in_pieces_is_what_was_asked_for() {
        // A character of three bytes lies across the end of each.
        for text in [String::new(), "x".to_owned(), "€".repeat(PART_BYTES_MAX)] {
            let pieces = pieces(&text);
            assert!(pieces.iter().all(|it| (1..=PART_BYTES_MAX).contains(&it.len())));
            assert_eq!(pieces.concat(), text);
        }
    }
}
