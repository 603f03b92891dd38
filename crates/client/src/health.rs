//! Whether a node can serve, as it says itself (`grpc.health.v1`): for probes, which mean this node and no other.

use std::time::Duration;

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::nodes::Node;
use crate::proof::Proof;
use crate::{ClientOptions, Error};

/// Asks the node at this address alone, once; whether it sends clients away is known within a second. It asks
/// for no proof, and is shown none.
///
/// # Errors
/// [`Error::NotDone`] or [`Error::PerhapsDone`] where nobody answers within `patience`, [`Error::Refused`] where
/// the address is none, or somebody else answers.
pub async fn is_serving(
    address: &str,
    options: &ClientOptions,
    patience: Duration,
) -> Result<bool, Error> {
    let node = Node::open(address, options, &Proof::new(None, None)?)?;
    let mut health = node.health();
    // The whole of the node.
    let request = HealthCheckRequest { service: String::new() };
    let answer = node.attempt(patience, health.check(request)).await?.into_inner();
    Ok(answer.status() == ServingStatus::Serving)
}
