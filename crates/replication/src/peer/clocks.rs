//! Asking a peer what its clocks show. It goes over the connection of votes and heartbeats, where it
//! waits behind nobody's bytes: the round trip bounds the error of what is learnt.

use super::connection::Peer;
use super::v1;
use crate::{ChannelError, Clocks};

pub(crate) async fn ask(peer: &Peer) -> Result<Clocks, ChannelError> {
    let mut client = peer.control.clone();
    match client.clocks(v1::ClocksRequest {}).await {
        Ok(reply) => {
            peer.accepted();
            let v1::ClocksReply { wall_us, clock_us } = reply.into_inner();
            Ok(Clocks { wall_us, clock_us })
        }
        Err(status) => Err(peer.not_reached(&status)),
    }
}
