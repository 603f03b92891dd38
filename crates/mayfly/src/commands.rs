//! Commands of those who work with queues, one file each.

pub mod bench;
pub mod clock;
pub mod cluster;
pub mod completions;
pub mod peek;
pub mod purge;
pub mod queue;
pub mod receive;
pub mod resubmit;
pub mod send;
pub mod session;

use client::QueuePath;

/// A queue on the command line, or its dead-letter queue.
#[derive(Clone, Debug, clap::Args)]
pub struct QueueArg {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Its dead-letter queue instead
    #[arg(short = 'd', long)]
    pub dead_letter_queue: bool,
}

impl QueueArg {
    pub fn path(&self) -> QueuePath {
        match self.dead_letter_queue {
            false => QueuePath::main(&self.queue),
            true => QueuePath::dead_letter(&self.queue),
        }
    }
}
