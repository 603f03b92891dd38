//! The connections that clients have at present: each that has a place is in it, from its opening until the last
//! that holds the place lets go of it. So it has no more than there are places.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::connection::{Connection, ConnectionId, ConnectionInfo, Origin};
use crate::limit::FrontEnd;

/// Of the seconds since the Unix epoch at which the process started, so many bits tell it from others.
const RUN_BITS: u32 = 24;

#[derive(Debug)]
pub(crate) struct Registry {
    run: u32,
    known: Mutex<ListedConnections>,
}

#[derive(Debug, Default)]
struct ListedConnections {
    last: u64,
    open: BTreeMap<u64, Arc<Connection>>,
}

impl Registry {
    pub fn new() -> Registry {
        let seconds = since_epoch_ms() / 1_000;
        let run = u32::try_from(seconds & ((1 << RUN_BITS) - 1)).unwrap_or(0);
        Registry { run, known: Mutex::default() }
    }

    /// It is listed until [`Registry::remove`].
    pub fn add(&self, front_end: FrontEnd, origin: Origin) -> Arc<Connection> {
        let mut known = self.known();
        known.last += 1;
        let id = ConnectionId { run: self.run, number: known.last };
        let connection = Arc::new(Connection::new(id, front_end, origin, since_epoch_ms()));
        known.open.insert(id.number, connection.clone());
        connection
    }

    pub fn remove(&self, id: ConnectionId) {
        self.known().open.remove(&id.number);
    }

    /// Those that came after one, in the order in which they came. Of one that is of another process: all.
    pub fn after(&self, id: Option<ConnectionId>, max: usize) -> Vec<ConnectionInfo> {
        let after = id.filter(|id| id.run == self.run).map_or(0, |id| id.number);
        // What is told of them is looked up without holding anybody up.
        let found: Vec<Arc<Connection>> = {
            let known = self.known();
            let later = known.open.range((Bound::Excluded(after), Bound::Unbounded));
            later.take(max).map(|(_, connection)| connection.clone()).collect()
        };
        found.iter().map(|connection| connection.info()).collect()
    }

    pub fn count(&self) -> u64 {
        self.known().open.len() as u64
    }

    /// Tells a connection to end; whether there is one of that id.
    pub fn close(&self, id: ConnectionId) -> bool {
        let found = self.known().open.get(&id.number).filter(|found| found.id == id).cloned();
        found.map(|found| found.close()).is_some()
    }

    fn known(&self) -> MutexGuard<'_, ListedConnections> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn since_epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
