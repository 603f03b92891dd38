//! SEND-8, LOCK-2, LOCK-18 and LOCK-20 with real processes: clients, edges and connections die at
//! any point, and what was asked for is done once.
//!
//! The sweeps cut connections after so many bytes, in strides; `MAYFLY_SWEEP_STRIDE=1` tries every
//! byte, which takes many minutes.

mod acts;
mod edges;
mod grants;
mod order;
mod repeats;
mod sweep;

use std::time::Duration;

use client::{Client, ClientOptions};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A client that soon notices when nobody answers any more.
fn wary_client<A: AsRef<str>>(addresses: impl IntoIterator<Item = A>) -> anyhow::Result<Client> {
    let options = ClientOptions {
        connect_timeout: Duration::from_secs(1),
        attempt_timeout: Duration::from_secs(3),
        give_up_after: Duration::from_secs(20),
        probe_interval: Duration::from_millis(200),
        ..ClientOptions::default()
    };
    Ok(Client::with_options(addresses, options)?)
}

/// Bytes between two cuts; a prime by default, so that cuts fall on different parts of frames.
fn stride(default: usize) -> anyhow::Result<usize> {
    Ok(match std::env::var("MAYFLY_SWEEP_STRIDE") {
        Ok(bytes) => bytes.parse::<usize>()?.max(1),
        Err(_) => default,
    })
}
