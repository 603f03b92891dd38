//! What clients do meanwhile: one file for each use of a broker. Each names its entities, and tells the
//! recorder of every call before it is made and of every message it is handed.

mod amqp;
mod bench;
mod deferrals;
mod duplicates;
mod fanout;
mod forward;
mod links;
mod locks;
mod moves;
mod queue;
mod scheduled;
mod sessions;
mod temporary;
mod transactions;
mod ttl;
mod worker;

use std::fmt;

use serde::Serialize;
use tokio::task::JoinSet;

use crate::Entity;
pub use bench::{Bench, Paces, Phase, Producers};
pub use temporary::IDLE as TEMPORARY_IDLE;

/// The workloads there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Sent, received and settled, each in one of three ways.
    Queue,
    /// Messages that expire, dead-lettered and dropped, locked and not.
    Ttl,
    /// Workers that crash with messages in their hands, come back late, and renew.
    Locks,
    /// Ordered sessions, and holders that stall.
    Sessions,
    /// A topic with subscriptions that take all, or some.
    Fanout,
    /// Two hops.
    Forward,
    /// Messages for later, and some that are cancelled.
    Scheduled,
    /// Queues that are used once and left alone.
    Temporary,
    /// Completions and sends, together or not at all.
    Transactions,
    /// Everything sent three times.
    Duplicates,
    /// Set aside, asked for by number, and dead-lettered for it.
    Deferrals,
    /// AMQP receivers whose links end in every way there is.
    Links,
    /// Whatever the others use is moved between groups.
    Moves,
}

impl Workload {
    pub const ALL: [Workload; 13] = [
        Workload::Queue,
        Workload::Ttl,
        Workload::Locks,
        Workload::Sessions,
        Workload::Fanout,
        Workload::Forward,
        Workload::Scheduled,
        Workload::Temporary,
        Workload::Transactions,
        Workload::Duplicates,
        Workload::Deferrals,
        Workload::Links,
        Workload::Moves,
    ];

    /// Those that are promised nothing that 0.1 did not: a deferral counts since (DEFER-7), and what a link
    /// settles in a transaction is provisional until it ends.
    pub const OF_0_1: [Workload; 10] = [
        Workload::Queue,
        Workload::Ttl,
        Workload::Locks,
        Workload::Sessions,
        Workload::Fanout,
        Workload::Forward,
        Workload::Scheduled,
        Workload::Temporary,
        Workload::Transactions,
        Workload::Duplicates,
    ];

    /// How many it has, each of which sends a message in its turn.
    pub fn producers(self) -> Producers {
        let quick = |quick| Producers { quick, slow: 0.0 };
        let slow = |slow| Producers { quick: 0.0, slow };
        match self {
            Workload::Queue | Workload::Ttl | Workload::Forward => quick(2.0),
            Workload::Fanout | Workload::Scheduled => quick(1.0),
            // Three messages in two turns.
            Workload::Duplicates => quick(1.5),
            Workload::Temporary => quick(0.1),
            Workload::Locks | Workload::Sessions | Workload::Transactions | Workload::Deferrals => {
                slow(1.0)
            }
            Workload::Links => slow(2.0),
            Workload::Moves => quick(0.0),
        }
    }

    /// Whether it can be done a part at a time: all that it has can be waited for, and is its own.
    pub fn comes_in_rounds(self) -> bool {
        !matches!(self, Workload::Temporary | Workload::Moves)
    }

    /// Whether its entities are there from the beginning, and so in every backup.
    pub fn outlives_restore(self) -> bool {
        self != Workload::Temporary
    }

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Queue => "queue",
            Workload::Ttl => "ttl",
            Workload::Locks => "locks",
            Workload::Sessions => "sessions",
            Workload::Fanout => "fanout",
            Workload::Forward => "forward",
            Workload::Scheduled => "scheduled",
            Workload::Temporary => "temporary",
            Workload::Transactions => "transactions",
            Workload::Duplicates => "duplicates",
            Workload::Deferrals => "deferrals",
            Workload::Links => "links",
            Workload::Moves => "moves",
        }
    }

    /// What it needs from the start, in the order in which it can be created.
    pub fn entities(self, prefix: &str) -> Vec<Entity> {
        match self {
            Workload::Queue => queue::entities(prefix),
            Workload::Ttl => ttl::entities(prefix),
            Workload::Locks => locks::entities(prefix),
            Workload::Sessions => sessions::entities(prefix),
            Workload::Fanout => fanout::entities(prefix),
            Workload::Forward => forward::entities(prefix),
            Workload::Scheduled => scheduled::entities(prefix),
            Workload::Temporary => temporary::entities(prefix),
            Workload::Transactions => transactions::entities(prefix),
            Workload::Duplicates => duplicates::entities(prefix),
            Workload::Deferrals => deferrals::entities(prefix),
            Workload::Links => links::entities(prefix),
            Workload::Moves => moves::entities(prefix),
        }
    }

    /// Starts its clients. They stop sending when the bench drains, and end when it is over.
    pub fn start(self, bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
        match self {
            Workload::Queue => queue::start(bench, prefix, tasks),
            Workload::Ttl => ttl::start(bench, prefix, tasks),
            Workload::Locks => locks::start(bench, prefix, tasks),
            Workload::Sessions => sessions::start(bench, prefix, tasks),
            Workload::Fanout => fanout::start(bench, prefix, tasks),
            Workload::Forward => forward::start(bench, prefix, tasks),
            Workload::Scheduled => scheduled::start(bench, prefix, tasks),
            Workload::Temporary => temporary::start(bench, prefix, tasks),
            Workload::Transactions => transactions::start(bench, prefix, tasks),
            Workload::Duplicates => duplicates::start(bench, prefix, tasks),
            Workload::Deferrals => deferrals::start(bench, prefix, tasks),
            Workload::Links => links::start(bench, prefix, tasks),
            Workload::Moves => moves::start(bench, prefix, tasks),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
