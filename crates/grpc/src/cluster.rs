//! `mayfly.v1.Cluster`.

use std::path::{Path, PathBuf};

use auth::{Denied, JoinSecret};
use bytes::Bytes;
use domain::{Excerpt, GroupId, JoinFault, JoinTokenRow, NodeRow, Refusal, Span};
use service::{
    Broker, CertificateEnd, ClusterStatus, Entrant, GroupView, Joined, NodeStatus, ReplicaView,
    Role,
};
use tonic::{Request, Response, Status};
use transport::Certificate;
use wire::v1;

use crate::api::cluster_server::Cluster;
use crate::door::{Door, Knock};
use crate::right::joining;
use crate::status::{refused, status};

/// How nodes are let in that join the cluster.
#[derive(Clone, Debug, Default)]
pub struct Joining {
    /// By a join token only, whoever asks. Default false.
    pub takes_a_token: bool,
    /// PEM: the authorities that nodes are vouched for by, if they are by any. Read when a token is made.
    pub authority: Option<PathBuf>,
}

pub(crate) struct ClusterService {
    pub door: Door,
    pub joining: Joining,
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
        let takes_a_token = self.joining.takes_a_token;
        let serve = |broker: Broker, asked: v1::AddNodeRequest| async move {
            if takes_a_token {
                let why = "this cluster takes nodes with a join token only; make one with 'mayfly cluster \
                           token', and start the node with --join and --token-file";
                return Err(refused(Refusal::InvalidOperation { why }, ""));
            }
            let (id, row) = node_row(asked.node)?;
            let (id, level) = ((id != 0).then_some(id), asked.feature_level);
            let added = broker.cluster().add_node(id, row, level).await;
            Ok(Response::new(joined(added.map_err(|error| status(&error))?)))
        };
        self.door.call(request, serve).await
    }

    async fn join(
        &self,
        request: Request<v1::JoinRequest>,
    ) -> Result<Response<v1::AddNodeResponse>, Status> {
        let visitor = self.door.visitor(&request).await;
        let v1::JoinRequest { node, token_id: token, secret, request, feature_level } =
            request.into_inner();
        let who = joining(node.as_ref());
        let serve = |broker: Broker| async move {
            let (node, row) = node_row(node)?;
            // One of another length is nobody's.
            let Ok(secret) = <[u8; 32]>::try_from(&secret[..]) else {
                return Ok(Err(denied(&JoinFault::Unknown)));
            };
            let secret_hash = JoinSecret(secret).hash();
            let entrant = Entrant { token, secret_hash, request, node, row, feature_level };
            let answer = broker.cluster().join(entrant).await.map_err(|error| status(&error))?;
            Ok(answer.map(joined).map_err(|fault| denied(&fault)))
        };
        self.door.join(visitor, Knock { token, who: &who }, serve).await
    }

    async fn create_join_token(
        &self,
        request: Request<v1::CreateJoinTokenRequest>,
    ) -> Result<Response<v1::CreateJoinTokenResponse>, Status> {
        let authority = self.joining.authority.clone();
        let serve = |broker: Broker, asked: v1::CreateJoinTokenRequest| async move {
            let v1::CreateJoinTokenRequest { id, secret_hash, lasts_ms, node } = asked;
            let wrong =
                |what, why: &str| refused(Refusal::Argument { what, why: why.to_owned() }, "");
            let hash = <[u8; 32]>::try_from(&secret_hash[..]);
            let hash = hash.map_err(|_| wrong("secret hash", "it is not 32 bytes long"))?;
            if id == 0 {
                return Err(wrong("id of a join token", "it is 0; draw one"));
            }
            let authorities = authority.as_deref().map(fingerprints).transpose();
            let authorities = authorities
                .map_err(|error| wrong("tls.peer.authority of the answering node", &error))?;
            let (lasts, node) = (Span(lasts_ms), (node != 0).then_some(node));
            let created = broker.cluster().create_join_token(id, hash, lasts, node).await;
            Ok(Response::new(v1::CreateJoinTokenResponse {
                expires_at_ms: created.map_err(|error| status(&error))?.0,
                authorities: authorities.unwrap_or_default(),
            }))
        };
        self.door.call(request, serve).await
    }

    async fn list_join_tokens(
        &self,
        request: Request<v1::ListJoinTokensRequest>,
    ) -> Result<Response<v1::ListJoinTokensResponse>, Status> {
        let serve = |broker: Broker, _: v1::ListJoinTokensRequest| async move {
            let tokens = broker.cluster().join_tokens().into_iter().map(|(id, row)| {
                let JoinTokenRow { secret_hash: _, expires_at, node, used } = row;
                v1::JoinTokenStatus {
                    id,
                    expires_at_ms: expires_at.0,
                    node: node.unwrap_or(0),
                    used_by: used.as_ref().map_or(0, |used| used.node),
                    used_at_ms: used.map_or(0, |used| used.at.0),
                }
            });
            let now_ms = broker.cluster().now_here().0.0;
            Ok(Response::new(v1::ListJoinTokensResponse { tokens: tokens.collect(), now_ms }))
        };
        self.door.call(request, serve).await
    }

    async fn revoke_join_token(
        &self,
        request: Request<v1::RevokeJoinTokenRequest>,
    ) -> Result<Response<v1::RevokeJoinTokenResponse>, Status> {
        let serve = |broker: Broker, asked: v1::RevokeJoinTokenRequest| async move {
            let revoked = broker.cluster().revoke_join_token(asked.id).await;
            revoked.map_err(|error| status(&error))?;
            Ok(Response::new(v1::RevokeJoinTokenResponse {}))
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

    async fn set_maintenance(
        &self,
        request: Request<v1::SetMaintenanceRequest>,
    ) -> Result<Response<v1::SetMaintenanceResponse>, Status> {
        let serve = |broker: Broker, asked: v1::SetMaintenanceRequest| async move {
            let v1::SetMaintenanceRequest { id, on } = asked;
            broker.cluster().set_maintenance(id, on).await.map_err(|error| status(&error))?;
            Ok(Response::new(v1::SetMaintenanceResponse {}))
        };
        self.door.call(request, serve).await
    }

    async fn move_entity(
        &self,
        request: Request<v1::MoveEntityRequest>,
    ) -> Result<Response<v1::MoveEntityResponse>, Status> {
        let serve = |broker: Broker, asked: v1::MoveEntityRequest| async move {
            let v1::MoveEntityRequest { name, group } = asked;
            // As of data groups: there is none of the largest number.
            let group = GroupId(u16::try_from(group).unwrap_or(u16::MAX));
            let moved = broker.cluster().move_entity(&name, group).await;
            let is_there = moved.map_err(|error| status(&error))?;
            Ok(Response::new(v1::MoveEntityResponse { is_there }))
        };
        self.door.call(request, serve).await
    }

    async fn add_groups(
        &self,
        request: Request<v1::AddGroupsRequest>,
    ) -> Result<Response<v1::AddGroupsResponse>, Status> {
        let serve = |broker: Broker, asked: v1::AddGroupsRequest| async move {
            // One that is too large for the type is refused like any that is too large.
            let data_groups = u16::try_from(asked.data_groups).unwrap_or(u16::MAX);
            broker.cluster().add_groups(data_groups).await.map_err(|error| status(&error))?;
            Ok(Response::new(v1::AddGroupsResponse {}))
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

/// What a node asks to be known by: its number, and where it is reached.
fn node_row(node: Option<v1::NodeAddress>) -> Result<(u64, NodeRow), Status> {
    let v1::NodeAddress { id, peer_address, grpc_address, http_address } = node.unwrap_or_default();
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
    Ok((id, NodeRow { peer_address, grpc_address, http_address }))
}

fn joined(joined: Joined) -> v1::AddNodeResponse {
    let Joined { cluster_id, node, nodes } = joined;
    v1::AddNodeResponse {
        cluster_id: format!("{cluster_id:032x}"),
        id: node,
        nodes: nodes.into_iter().map(|(id, row)| address(id, row)).collect(),
    }
}

/// Why a join token lets nobody in, as it is counted and told.
fn denied(fault: &JoinFault) -> Denied {
    let reason = match fault {
        JoinFault::Unknown => "token-unknown",
        JoinFault::Used { .. } => "token-used",
        JoinFault::Expired { .. } => "token-expired",
        JoinFault::OtherNode { .. } => "token-of-another-node",
    };
    let is_guess = *fault == JoinFault::Unknown;
    Denied::JoinToken { reason, why: fault.to_string(), is_guess }
}

/// Of each authority in a PEM file. The error is one line.
fn fingerprints(path: &Path) -> Result<Vec<Bytes>, String> {
    let read = Certificate::read_all(path).map_err(|error| error.to_string())?;
    let print = |read: Certificate| Bytes::copy_from_slice(&read.fingerprint.0);
    Ok(read.into_iter().map(print).collect())
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
        Role::Maintenance => v1::NodeRole::Maintenance,
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
        feature_level: status.feature_level,
        data_groups: status.data_groups.into(),
    }
}

fn node(status: NodeStatus) -> v1::NodeStatus {
    let told = status.description;
    let certificate =
        |CertificateEnd { shown_to, at_s }| v1::CertificateEnd { r#use: shown_to, at_s };
    v1::NodeStatus {
        feature_level: told.as_ref().map(|told| told.feature_level),
        up_ms: told.as_ref().map(|told| told.up_ms),
        connections: told.as_ref().and_then(|told| told.connections),
        version: told.as_ref().map(|told| told.version.clone()),
        zone: told.as_ref().and_then(|told| told.zone.clone()),
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
