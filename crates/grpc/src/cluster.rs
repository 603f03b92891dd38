//! `mayfly.v1.Cluster`.

use domain::{Excerpt, GroupId, NodeRow, Refusal, Span};
use service::{
    Broker, CertificateEnd, ClusterStatus, GroupView, Joined, NodeStatus, ReplicaView, Role,
};
use tonic::{Request, Response, Status};
use wire::v1;

use crate::api::cluster_server::Cluster;
use crate::door::Door;
use crate::status::{refused, status};

pub(crate) struct ClusterService {
    pub door: Door,
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        let serve = |broker: Broker, asked: v1::StatusRequest| async move {
            let status = broker.cluster().status(asked.local).await;
            Ok(Response::new(shown(status)))
        };
        self.door.call(request, serve).await
    }

    async fn now(
        &self,
        request: Request<v1::NowRequest>,
    ) -> Result<Response<v1::NowResponse>, Status> {
        let serve = |broker: Broker, _: v1::NowRequest| async move {
            let (now, offset) = broker.cluster().now().await.map_err(|error| status(&error))?;
            Ok(Response::new(v1::NowResponse { now_ms: now.0, offset_ms: offset.0 }))
        };
        self.door.call(request, serve).await
    }

    async fn advance_clock(
        &self,
        request: Request<v1::AdvanceClockRequest>,
    ) -> Result<Response<v1::AdvanceClockResponse>, Status> {
        let serve = |broker: Broker, asked: v1::AdvanceClockRequest| async move {
            let by = Span(asked.by_ms);
            let (now, offset) =
                broker.cluster().advance_clock(by).await.map_err(|error| status(&error))?;
            Ok(Response::new(v1::AdvanceClockResponse { now_ms: now.0, offset_ms: offset.0 }))
        };
        self.door.call(request, serve).await
    }

    async fn transfer_leader(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::TransferLeaderResponse>, Status> {
        let serve = |broker: Broker, asked: v1::TransferLeaderRequest| async move {
            let v1::TransferLeaderRequest { group, node } = asked;
            let group = u16::try_from(group).map(GroupId).map_err(|_| {
                let (value, allowed) = (group.to_string(), "a group of `cluster status`");
                refused(Refusal::ArgumentOutOfRange { what: "group", value, allowed }, "")
            })?;
            let moved = broker.cluster().transfer_leader(group, node).await;
            moved.map_err(|error| status(&error))?;
            Ok(Response::new(v1::TransferLeaderResponse {}))
        };
        self.door.call(request, serve).await
    }

    async fn add_node(
        &self,
        request: Request<v1::AddNodeRequest>,
    ) -> Result<Response<v1::AddNodeResponse>, Status> {
        let serve = |broker: Broker, asked: v1::AddNodeRequest| async move {
            let v1::NodeAddress { id, peer_address, grpc_address, http_address } =
                asked.node.unwrap_or_default();
            for (what, address) in [
                ("peer address", &peer_address),
                ("gRPC address", &grpc_address),
                ("HTTP address", &http_address),
            ] {
                if !is_address(address) {
                    let why = format!("'{}' is no address; write host:port", Excerpt(address));
                    return Err(refused(Refusal::Argument { what, why }, ""));
                }
            }
            let row = NodeRow { peer_address, grpc_address, http_address };
            let added = broker.cluster().add_node((id != 0).then_some(id), row).await;
            let Joined { cluster_id, node, nodes } = added.map_err(|error| status(&error))?;
            Ok(Response::new(v1::AddNodeResponse {
                cluster_id: format!("{cluster_id:032x}"),
                id: node,
                nodes: nodes.into_iter().map(|(id, row)| address(id, row)).collect(),
            }))
        };
        self.door.call(request, serve).await
    }

    async fn drain_node(
        &self,
        request: Request<v1::DrainNodeRequest>,
    ) -> Result<Response<v1::DrainNodeResponse>, Status> {
        let serve = |broker: Broker, asked: v1::DrainNodeRequest| async move {
            let v1::DrainNodeRequest { id, cancel } = asked;
            broker.cluster().drain_node(id, cancel).await.map_err(|error| status(&error))?;
            Ok(Response::new(v1::DrainNodeResponse {}))
        };
        self.door.call(request, serve).await
    }

    async fn remove_node(
        &self,
        request: Request<v1::RemoveNodeRequest>,
    ) -> Result<Response<v1::RemoveNodeResponse>, Status> {
        let serve = |broker: Broker, asked: v1::RemoveNodeRequest| async move {
            let v1::RemoveNodeRequest { id, dead } = asked;
            broker.cluster().remove_node(id, dead).await.map_err(|error| status(&error))?;
            Ok(Response::new(v1::RemoveNodeResponse {}))
        };
        self.door.call(request, serve).await
    }
}

/// A name and a port; whether somebody is there is seen when it is tried.
fn is_address(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

fn address(id: u64, row: NodeRow) -> v1::NodeAddress {
    let NodeRow { peer_address, grpc_address, http_address } = row;
    v1::NodeAddress { id, peer_address, grpc_address, http_address }
}

fn role(role: Role) -> v1::NodeRole {
    match role {
        Role::Joining => v1::NodeRole::Joining,
        Role::Active => v1::NodeRole::Active,
        Role::Draining => v1::NodeRole::Draining,
        Role::Drained => v1::NodeRole::Drained,
        Role::Removed => v1::NodeRole::Removed,
    }
}

fn shown(status: ClusterStatus) -> v1::StatusResponse {
    let cluster_id = status.cluster_id.map(|id| format!("{id:032x}"));
    v1::StatusResponse {
        cluster_id: cluster_id.unwrap_or_default(),
        durability: status.durability.to_owned(),
        development: status.development,
        nodes: status.nodes.into_iter().map(node).collect(),
        groups: status.groups.into_iter().map(group).collect(),
        version: status.version.to_owned(),
        answered_by: status.answered_by,
        wrong: status.wrong,
    }
}

fn node(status: NodeStatus) -> v1::NodeStatus {
    let told = status.description;
    let certificate =
        |CertificateEnd { shown_to, at_s }| v1::CertificateEnd { r#use: shown_to, at_s };
    v1::NodeStatus {
        feature_level: told.as_ref().map(|told| told.feature_level),
        up_ms: told.as_ref().map(|told| told.up_ms),
        version: told.as_ref().map(|told| told.version.clone()),
        certificates: told
            .into_iter()
            .flat_map(|told| told.certificates)
            .map(certificate)
            .collect(),
        id: status.node,
        peer_address: status.addresses.peer_address,
        grpc_address: status.addresses.grpc_address,
        http_address: status.addresses.http_address,
        reachable: status.reachable,
        groups_led: status.groups_led,
        note: status.note,
        disk: status.disk.map(|disk| v1::DiskStatus {
            free_bytes: disk.free_bytes,
            reserve_bytes: disk.reserve_bytes,
            low: disk.low,
        }),
        clock_offset_ms: status.clock.off_ms,
        clock_agrees: status.clock.agrees,
        role: role(status.role).into(),
        replicas: status.replicas,
    }
}

fn group(view: GroupView) -> v1::GroupStatus {
    v1::GroupStatus {
        id: view.id.0.into(),
        leader: view.leader.unwrap_or(0),
        term: view.term,
        led_ms: view.led_ms,
        replicas: view.replicas.into_iter().map(replica).collect(),
    }
}

fn replica(view: ReplicaView) -> v1::ReplicaStatus {
    v1::ReplicaStatus {
        node: view.node,
        reachable: view.reachable,
        last_log_index: view.last_log,
        applied_index: view.applied,
        flushed_index: view.flushed,
        purged_index: view.purged,
        lag: view.lag,
        voter: view.voter,
    }
}
