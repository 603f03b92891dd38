//! `/health`, `/health/live`, `/health/ready`, `/health/details`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use service::{Broker, DiskStatus, GroupHealth, PeerStatus, Readiness};

use crate::server::App;

#[derive(Serialize)]
pub(crate) struct Health {
    status: &'static str,
    /// Why the node is not ready; absent when it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    node: u64,
    version: &'static str,
    disk: Disk,
    peers: Vec<PeerHealth>,
    groups: Vec<Group>,
}

/// The emulator's words, in its order.
#[derive(Serialize)]
pub(crate) struct Verdict {
    status: &'static str,
    message: String,
}

#[derive(Serialize)]
struct Disk {
    free_bytes: u64,
    reserve_bytes: u64,
    low: bool,
}

#[derive(Serialize)]
struct PeerHealth {
    node: u64,
    up: bool,
    /// How long ago it last answered. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    heard_ms: Option<u64>,
    /// Why it refuses this node, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    refuses: Option<String>,
}

#[derive(Serialize)]
struct Group {
    group: u16,
    /// Absent: no majority confirms one.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<u64>,
    /// How long ago a majority confirmed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed_ms: Option<u64>,
    leads: bool,
    /// This node counts for its majority.
    member: bool,
    term: u64,
    lag: u64,
    failed: bool,
}

impl Health {
    fn of(broker: &Broker) -> (StatusCode, Health) {
        let Readiness { ready, why, disk, groups, peers } = broker.cluster().readiness();
        let (code, status) = match ready {
            true => (StatusCode::OK, "ready"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
        };
        let groups = groups.into_iter().map(Group::of).collect();
        let (node, version) = (broker.cluster().node(), broker.cluster().version());
        let DiskStatus { free_bytes, reserve_bytes, low } = disk;
        let disk = Disk { free_bytes, reserve_bytes, low };
        let peers = peers.into_iter().map(PeerHealth::of).collect();
        (code, Health { status, why, node, version, disk, peers, groups })
    }
}

impl Group {
    fn of(health: GroupHealth) -> Group {
        let GroupHealth {
            id,
            leader,
            confirmed_ms,
            leads,
            term,
            lag,
            failed,
            is_member,
            voters_wanted: _,
            replicas: _,
        } = health;
        Group { group: id.0, leader, confirmed_ms, leads, member: is_member, term, lag, failed }
    }
}

impl PeerHealth {
    fn of(status: PeerStatus) -> PeerHealth {
        let up = status.is_up();
        let PeerStatus { node, heard_ms, refuses } = status;
        PeerHealth { node, up, heard_ms, refuses }
    }
}

/// Everything, and 200 whatever it says: for people.
pub(crate) async fn details(State(app): State<App>) -> Json<Health> {
    Json(Health::of(&app.broker).1)
}

/// 200 or 503, in the words of Microsoft's emulator: programs written for it ask before they begin.
pub(crate) async fn health(State(app): State<App>) -> (StatusCode, Json<Verdict>) {
    let (code, Health { why, .. }) = Health::of(&app.broker);
    let (status, message) = match why.is_empty() {
        true => ("healthy", "Service is healthy.".to_owned()),
        false => ("unhealthy", format!("Service is unhealthy: {why}.")),
    };
    (code, Json(Verdict { status, message }))
}

/// 200 as long as the process answers: for whoever restarts it.
pub(crate) async fn live() -> Json<serde_json::Value> {
    Json(serde_json::json!({ "status": "live" }))
}

/// 200 or 503: for whoever sends clients here.
pub(crate) async fn ready(State(app): State<App>) -> (StatusCode, Json<serde_json::Value>) {
    let (code, Health { status, why, .. }) = Health::of(&app.broker);
    let body = match why.is_empty() {
        true => serde_json::json!({ "status": status }),
        false => serde_json::json!({ "status": status, "why": why }),
    };
    (code, Json(body))
}
