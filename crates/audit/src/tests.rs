//! A trail and its file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use auth::{Denied, TokenError};
use serde_json::Value;

use crate::{Action, Caller, Outcome, Protocol, Refused, Settings, Trail};

const SOON: Duration = Duration::from_secs(10);

fn trail(file: &Path) -> Trail {
    let settings = Settings { file: Some(file.to_owned()), node: 1, ..Settings::default() };
    Trail::start(settings).expect("a trail")
}

fn caller() -> Caller {
    let (principal, namespace) = (Some(auth::Principal::Anyone), domain::Namespace::DEFAULT);
    Caller { protocol: Protocol::Http, address: None, principal, namespace }
}

/// Action, object, outcome and count of each record.
fn records(file: &Path) -> Vec<(String, String, String, u64)> {
    let text = fs::read_to_string(file).expect("a file");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let told = lines.map(|line| {
        let count = line["count"].as_u64().unwrap_or(1);
        (text(&line, "action"), text(&line, "object"), text(&line, "outcome"), count)
    });
    told.collect()
}

fn told(action: &str, object: &str, outcome: &str, count: u64) -> (String, String, String, u64) {
    (action.to_owned(), object.to_owned(), outcome.to_owned(), count)
}

#[test]
fn what_was_begun_is_told_however_it_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.log");
    fs::write(&file, "").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("changed");
    let trail = trail(&file);
    trail.begin(caller(), Action::EntityCreate, "a").end(Outcome::Done);
    trail.begin(caller(), Action::EntityDelete, "b").end(Outcome::NotDone("ServiceBusy".into()));
    drop(trail.begin(caller(), Action::EntityUpdate, "c"));
    trail.end(SOON);
    let expected = [
        told("entity.create", "a", "done", 1),
        told("entity.delete", "b", "not-done", 1),
        told("entity.update", "c", "perhaps-done", 1),
    ];
    assert_eq!(records(&file), expected);
    let mode = fs::metadata(&file).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "one of before is closed to others");
}

/// As logrotate does it: the file is moved, then whoever writes it is told.
#[test]
fn a_file_that_was_moved_is_opened_anew_when_that_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, moved) = (dir.path().join("audit.log"), dir.path().join("audit.log.1"));
    let trail = trail(&file);
    let create = |name: &str| {
        trail.begin(caller(), Action::EntityCreate, name).end(Outcome::Done);
        trail.end(SOON);
    };
    create("before");
    fs::rename(&file, &moved).expect("moved");
    create("between");
    trail.reopen();
    create("after");
    assert_eq!(records(&moved).len(), 2);
    assert_eq!(records(&file), [told("entity.create", "after", "done", 1)]);
}

/// Where nothing can be written nobody waits, and what was lost is told once something can.
#[test]
fn what_could_not_be_written_is_counted_and_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.log");
    // Every write to it fails for want of space.
    std::os::unix::fs::symlink("/dev/full", &file).expect("a link");
    let trail = trail(&file);
    for _ in 0..3 {
        trail.begin(caller(), Action::EntityCreate, "lost").end(Outcome::Done);
    }
    trail.end(SOON);
    fs::remove_file(&file).expect("removed");
    trail.reopen();
    trail.begin(caller(), Action::EntityCreate, "kept").end(Outcome::Done);
    trail.end(SOON);
    let expected = [told("records.drop", "", "done", 3), told("entity.create", "kept", "done", 1)];
    assert_eq!(records(&file), expected);
}

#[test]
fn refused_proofs_of_one_address_are_told_together() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.log");
    let trail = trail(&file);
    let denied = Denied::Proof(TokenError::Signature { key: "worker".into() });
    for port in 0..1_000 {
        let peer = Some(([10, 0, 0, 1], port).into());
        let refused = Refused {
            protocol: Protocol::Amqp,
            peer,
            denied: &denied,
            claimed: Some("worker"),
            path: "orders",
            method: "put-token",
            namespace: &domain::Namespace::DEFAULT,
        };
        assert_eq!(trail.refuse(&refused), Duration::ZERO, "nobody is held up");
    }
    trail.end(SOON);
    let expected = [
        told("proof.refuse", "orders", "refused", 1),
        told("proof.refuse", "orders", "refused", 999),
    ];
    assert_eq!(records(&file), expected);
    let text = fs::read_to_string(&file).expect("a file");
    assert!(text.contains(r#""principal":"nobody","key":"worker""#), "{text}");
    assert!(text.contains(r#""reason":"wrong-key""#), "{text}");
}

#[test]
fn a_trail_without_a_place_is_none() {
    let trail = Trail::start(Settings::default()).expect("a trail");
    drop(trail.begin(caller(), Action::EntityCreate, "a"));
    trail.reopen();
    trail.end(Duration::ZERO);
}
