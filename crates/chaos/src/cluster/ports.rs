//! Ports for the processes of clusters.

use std::io::{Error, ErrorKind};
use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;

use rand::RngExt;

/// Below the range from which outgoing connections are numbered, so that none of those takes a port
/// before a node does.
const FIRST: u16 = 11_000;
const BLOCKS: u16 = 520;
/// Ports of one block.
const BLOCK: u16 = 40;

/// Sockets that keep blocks of ports, for as long as this process lives.
static KEPT: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Up to 40 neighbouring TCP ports that nobody listens on, and that no other caller on this machine is
/// given while this process lives: between the choice of a port and the start of its node others choose
/// theirs. The first one's UDP port, which no node uses, is bound to keep them.
///
/// # Errors
///
/// More ports than a block has were asked for, or no block is free.
pub fn free_ports(count: usize) -> Result<Vec<u16>, Error> {
    if count > usize::from(BLOCK) {
        return Err(Error::new(ErrorKind::InvalidInput, format!("{count} ports at once")));
    }
    for _ in 0..10 * BLOCKS {
        let first = FIRST + BLOCK * rand::rng().random_range(0..BLOCKS);
        let Ok(kept) = UdpSocket::bind(("127.0.0.1", first)) else { continue };
        let ports: Vec<u16> = (first..).take(count).collect();
        if ports.iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()) {
            KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(kept);
            return Ok(ports);
        }
    }
    Err(Error::new(ErrorKind::AddrInUse, "no free ports are found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_given_ports_that_others_have_though_they_do_not_listen_yet() {
        let all: Vec<u16> = (0..100).flat_map(|_| free_ports(18).expect("free ports")).collect();
        let mut apart = all.clone();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!(apart.len(), all.len());
        assert!(all.iter().all(|port| *port < 32_000));
    }

    #[test]
    fn a_block_is_not_exceeded() {
        let error = free_ports(41).expect_err("a block has 40");
        assert_eq!(error.to_string(), "41 ports at once");
    }
}
