//! The process of a node, wherever it runs.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::RemoteNode;
use crate::Error;
use crate::process::Process;

/// What can be done to a node's process.
pub enum NodeControl<'a> {
    /// Started here.
    Own(&'a mut Process),
    /// Started by an agent.
    Remote(&'a RemoteNode),
}

impl NodeControl<'_> {
    /// `kill -9`, and waits until it is gone.
    pub async fn kill(self) -> Result<(), Error> {
        match self {
            NodeControl::Own(process) => process.kill(),
            NodeControl::Remote(agent) => agent.kill().await?,
        }
        Ok(())
    }

    /// `SIGSTOP`.
    pub async fn pause(self) -> Result<(), Error> {
        match self {
            NodeControl::Own(process) => process.signal(Signal::SIGSTOP),
            NodeControl::Remote(agent) => agent.pause().await?,
        }
        Ok(())
    }

    /// `SIGCONT`.
    pub async fn resume(self) -> Result<(), Error> {
        match self {
            NodeControl::Own(process) => process.signal(Signal::SIGCONT),
            NodeControl::Remote(agent) => agent.resume().await?,
        }
        Ok(())
    }

    /// `SIGTERM`, and waits until it has ended in good order.
    pub async fn stop(&mut self) -> Result<(), Error> {
        match self {
            NodeControl::Own(process) => process.stop().await,
            NodeControl::Remote(agent) => agent.stop().await?,
        }
        Ok(())
    }

    /// Starts it, unless it runs.
    pub async fn start(self, flags: &[String]) -> Result<(), Error> {
        match self {
            NodeControl::Own(process) => process.start(flags),
            NodeControl::Remote(agent) => agent.start(flags).await,
        }
    }

    /// Makes each sync of its log take so much longer, from now on.
    pub async fn delay_syncs(self, delay: Duration) -> Result<(), Error> {
        match self {
            NodeControl::Own(process) => process.delay_syncs(delay),
            NodeControl::Remote(agent) => agent.delay_syncs(delay).await,
        }
    }
}
