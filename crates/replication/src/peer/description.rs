//! Asking a peer what it is: its version, how long it runs, when its certificates end, since when it leads.

use domain::GroupId;
use tonic::Code;

use super::connection::Peer;
use super::v1;
use crate::{CertificateEnd, ChannelError, FaultTally, LedGroup, NodeDescription};

/// `None`: the peer is of a version that does not tell.
pub(crate) async fn ask(peer: &Peer) -> Result<Option<NodeDescription>, ChannelError> {
    let mut client = peer.control.clone();
    match client.describe(v1::DescribeRequest {}).await {
        Ok(reply) => {
            peer.accepted();
            Ok(Some(taken(reply.into_inner())))
        }
        Err(status) if status.code() == Code::Unimplemented => Ok(None),
        Err(status) => Err(peer.not_reached(&status)),
    }
}

/// Which data directory it has.
pub(crate) async fn ask_directory_id(peer: &Peer) -> Result<u32, ChannelError> {
    let mut client = peer.control.clone();
    match client.recall(v1::RecallRequest {}).await {
        Ok(reply) => {
            peer.accepted();
            Ok(reply.into_inner().directory_id)
        }
        Err(status) => Err(peer.not_reached(&status)),
    }
}

/// As it goes over the wire.
pub(crate) fn told(description: NodeDescription) -> v1::DescribeReply {
    let NodeDescription {
        version,
        feature_level,
        feature_level_reached,
        up_ms,
        certificates,
        led,
        zone,
        faults,
        connections,
    } = description;
    let certificate =
        |CertificateEnd { shown_to, at_s }| v1::CertificateEnd { r#use: shown_to, at_s };
    let led_group =
        |LedGroup { group, term, led_ms }| v1::LedGroup { group: group.0.into(), term, led_ms };
    let fault = |FaultTally { name, added_at_ms, events, hits }| v1::FaultTally {
        name,
        added_at_ms,
        events,
        hits,
    };
    v1::DescribeReply {
        version,
        feature_level,
        feature_level_reached,
        up_ms,
        certificates: certificates.into_iter().map(certificate).collect(),
        led: led.into_iter().map(led_group).collect(),
        zone: zone.unwrap_or_default(),
        faults: faults.into_iter().map(fault).collect(),
        connections,
    }
}

fn taken(reply: v1::DescribeReply) -> NodeDescription {
    let v1::DescribeReply {
        version,
        feature_level,
        feature_level_reached,
        up_ms,
        certificates,
        led,
        zone,
        faults,
        connections,
    } = reply;
    let certificate = |v1::CertificateEnd { r#use, at_s }| CertificateEnd { shown_to: r#use, at_s };
    let led_group = |v1::LedGroup { group, term, led_ms }| {
        let group = u16::try_from(group).ok().map(GroupId)?;
        Some(LedGroup { group, term, led_ms })
    };
    let fault = |v1::FaultTally { name, added_at_ms, events, hits }| FaultTally {
        name,
        added_at_ms,
        events,
        hits,
    };
    NodeDescription {
        version,
        feature_level,
        feature_level_reached,
        up_ms,
        certificates: certificates.into_iter().map(certificate).collect(),
        led: led.into_iter().filter_map(led_group).collect(),
        zone: (!zone.is_empty()).then_some(zone),
        faults: faults.into_iter().map(fault).collect(),
        connections,
    }
}
