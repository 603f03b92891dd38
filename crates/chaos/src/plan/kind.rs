//! The kinds of faults.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What can be done to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// `kill -9`; started again when it is over. What `rows/` had not flushed is lost.
    Kill,
    /// `SIGSTOP`, and `SIGCONT` when it is over.
    Pause,
    /// `kill -9`, and of what the node had written and not synced a part is lost, as a machine without
    /// power loses it.
    PowerFailure,
    /// All nodes lose their power at one moment.
    Blackout,
    /// Ended in good order, and started again.
    Restart,
    /// Nothing arrives, in one direction or both.
    Partition,
    /// Everything arrives later, by up to some hundred milliseconds.
    Delay,
    /// Segments are lost, and sent again by TCP.
    Loss,
    /// A link of some kilobytes per second.
    Slow,
    /// A wall clock that is wrong by seconds, days or years.
    ClockSkew,
    /// A wall clock that is ahead in one second and behind in the next.
    ClockJump,
    /// Each sync of the log takes up to seconds longer.
    SlowSync,
    /// A disk without a free byte. Needs the right to mount.
    FullDisk,
    /// A bit flipped in the log, the rows or a snapshot of a stopped node.
    BitFlip,
    /// A file of a stopped node cut short.
    Truncate,
    /// A stopped node's data are gone: it leaves and joins its groups, under load.
    Wipe,
    /// A node is wiped, and of the snapshots that it is sent bits are flipped on their way.
    DamagedSnapshot,
    /// A group's leadership handed to another node.
    Transfer,
    /// A node joins, and has replicas moved to it; when it is over it is drained and removed.
    Membership,
    /// The broker has clients over AMQP meet what a network or a node might do to them.
    MessageFault,
    /// A node's certificate for its peers is replaced, and all connections between nodes are made anew.
    RotateCertificate,
    /// The authority of all nodes' certificates is replaced, and all of them with it, in the steps that
    /// operators take; after each step all connections between nodes are made anew.
    RotateAuthority,
    /// The key that clients have is rotated on all nodes, and clients are given the new one.
    RotateKey,
    /// Ended in good order, and started again with the binary of today where it ran the previous release's.
    Upgrade,
    /// The other way. Once the cluster's feature level has risen the previous release must refuse to run.
    Downgrade,
}

impl FaultKind {
    pub const ALL: [FaultKind; 25] = [
        FaultKind::Kill,
        FaultKind::PowerFailure,
        FaultKind::Blackout,
        FaultKind::Pause,
        FaultKind::Restart,
        FaultKind::Partition,
        FaultKind::Delay,
        FaultKind::Loss,
        FaultKind::Slow,
        FaultKind::ClockSkew,
        FaultKind::ClockJump,
        FaultKind::SlowSync,
        FaultKind::FullDisk,
        FaultKind::BitFlip,
        FaultKind::Truncate,
        FaultKind::Wipe,
        FaultKind::DamagedSnapshot,
        FaultKind::Transfer,
        FaultKind::Membership,
        FaultKind::MessageFault,
        FaultKind::RotateCertificate,
        FaultKind::RotateAuthority,
        FaultKind::RotateKey,
        FaultKind::Upgrade,
        FaultKind::Downgrade,
    ];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Kill => "kill",
            FaultKind::PowerFailure => "power-failure",
            FaultKind::Blackout => "blackout",
            FaultKind::Pause => "pause",
            FaultKind::Restart => "restart",
            FaultKind::Partition => "partition",
            FaultKind::Delay => "delay",
            FaultKind::Loss => "loss",
            FaultKind::Slow => "slow",
            FaultKind::ClockSkew => "clock-skew",
            FaultKind::ClockJump => "clock-jump",
            FaultKind::SlowSync => "slow-sync",
            FaultKind::FullDisk => "full-disk",
            FaultKind::BitFlip => "bit-flip",
            FaultKind::Truncate => "truncate",
            FaultKind::Wipe => "wipe",
            FaultKind::DamagedSnapshot => "damaged-snapshot",
            FaultKind::Transfer => "transfer",
            FaultKind::Membership => "membership",
            FaultKind::MessageFault => "message-fault",
            FaultKind::RotateCertificate => "rotate-certificate",
            FaultKind::RotateAuthority => "rotate-authority",
            FaultKind::RotateKey => "rotate-key",
            FaultKind::Upgrade => "upgrade",
            FaultKind::Downgrade => "downgrade",
        }
    }

    /// Whether a node's process may end by it, and with it what clients hold through it (LOCK-28).
    pub fn ends_nodes(self) -> bool {
        match self {
            FaultKind::Kill
            | FaultKind::PowerFailure
            | FaultKind::Blackout
            | FaultKind::Restart
            | FaultKind::Upgrade
            | FaultKind::Downgrade
            | FaultKind::ClockSkew
            | FaultKind::ClockJump
            | FaultKind::SlowSync
            | FaultKind::FullDisk
            | FaultKind::BitFlip
            | FaultKind::Truncate
            | FaultKind::Wipe
            | FaultKind::DamagedSnapshot => true,
            FaultKind::Pause
            | FaultKind::Partition
            | FaultKind::Delay
            | FaultKind::Loss
            | FaultKind::Slow
            | FaultKind::Transfer
            | FaultKind::Membership
            | FaultKind::MessageFault
            | FaultKind::RotateCertificate
            | FaultKind::RotateAuthority
            | FaultKind::RotateKey => false,
        }
    }

    /// Whether every replica must be whole before it: where a node may lose what it held, no other may
    /// until that one has it back; a power failure may take the mark by which a node knows of harm
    /// that was done to it before; and certificates, keys and binaries are replaced one node after the other.
    pub fn needs_whole(self) -> bool {
        match self {
            FaultKind::PowerFailure
            | FaultKind::Blackout
            | FaultKind::BitFlip
            | FaultKind::Truncate
            | FaultKind::Wipe
            | FaultKind::DamagedSnapshot
            | FaultKind::RotateCertificate
            | FaultKind::RotateAuthority
            | FaultKind::RotateKey
            | FaultKind::Upgrade
            | FaultKind::Downgrade => true,
            FaultKind::Kill
            | FaultKind::Pause
            | FaultKind::Restart
            | FaultKind::Partition
            | FaultKind::Delay
            | FaultKind::Loss
            | FaultKind::Slow
            | FaultKind::ClockSkew
            | FaultKind::ClockJump
            | FaultKind::SlowSync
            | FaultKind::FullDisk
            | FaultKind::Transfer
            | FaultKind::Membership
            | FaultKind::MessageFault => false,
        }
    }

    /// Whether it can be done to a cluster whose processes are not ours.
    pub fn needs_no_process(self) -> bool {
        self == FaultKind::Transfer
    }

    /// Whether an agent beside a node can do it: nothing is needed but the node's process and what it says to others.
    pub fn is_for_agents(self) -> bool {
        self.hurts_process() || self.hurts_links()
    }

    /// Whether it needs the victim's process, and nothing else of the victim.
    pub fn hurts_process(self) -> bool {
        use FaultKind::{ClockJump, ClockSkew, Kill, Pause, Restart, SlowSync};
        matches!(self, Kill | Pause | Restart | ClockSkew | ClockJump | SlowSync)
    }

    fn hurts_links(self) -> bool {
        use FaultKind::{Delay, Loss, Partition, Slow};
        matches!(self, Partition | Delay | Loss | Slow)
    }

    /// Whether it can be done to nodes that speak TLS among themselves, or plain text, and ask clients for a
    /// key, or for none, and began as the previous release.
    ///
    /// # Errors
    /// Why not, and what would let it.
    pub fn fits(self, tls: bool, keys: bool, upgrades: bool) -> Result<(), String> {
        match self {
            FaultKind::RotateCertificate | FaultKind::RotateAuthority if !tls => {
                Err(format!("{self} needs nodes with certificates: pass --tls"))
            }
            FaultKind::RotateKey if !keys => {
                Err(format!("{self} needs nodes that ask clients for a key: pass --keys"))
            }
            FaultKind::Upgrade | FaultKind::Downgrade if !upgrades => {
                Err(format!("{self} needs another release's binary: pass --previous"))
            }
            FaultKind::DamagedSnapshot if tls => {
                Err(format!("{self} changes what nodes send in plain text: leave --tls"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_one_that_is_written_in_schedules() {
        for kind in FaultKind::ALL {
            let written = serde_json::to_string(&kind).expect("a name");
            assert_eq!(written, format!("{:?}", kind.name()));
        }
    }
}
