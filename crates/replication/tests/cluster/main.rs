//! Three nodes over loopback: what is acknowledged stays, whoever dies.

mod channels;
mod disks;
mod harness;
mod leaders;
mod returns;
mod sleep;
mod snapshots;
mod strangers;
