//! What is told to the recorder. No label names an address or a key: there may be any number of them.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::ledger::FrontEndBooks;
use crate::limit::{FrontEnd, Limit};

const CONNECTIONS: &str = "mayfly_connections";
const LINKS: &str = "mayfly_amqp_links";
const SESSIONS: &str = "mayfly_amqp_sessions";
const BYTES: &str = "mayfly_in_flight_bytes";
const REFUSED: &str = "mayfly_refused_by_limit_total";

const OPENED: &str = "mayfly_connections_opened_total";
const REQUESTS: &str = "mayfly_requests_total";

/// Describes what is recorded here to the installed recorder.
pub fn describe() {
    describe_gauge!(CONNECTIONS, Unit::Count, "Connections of clients, by `protocol`.");
    describe_counter!(OPENED, Unit::Count, "Connections that clients opened, by `protocol`.");
    describe_counter!(
        REQUESTS,
        Unit::Count,
        "What clients asked for, by `protocol`: calls, messages sent over AMQP, credit given there; what was refused \
         included."
    );
    describe_gauge!(LINKS, Unit::Count, "AMQP links.");
    describe_gauge!(SESSIONS, Unit::Count, "AMQP sessions.");
    describe_gauge!(
        BYTES,
        Unit::Bytes,
        "What clients sent and is neither stored nor answered yet, by `protocol`."
    );
    describe_counter!(
        REFUSED,
        Unit::Count,
        "Connections, links, sessions, requests and deliveries refused as over a `limit`, by `protocol`."
    );
}

pub(crate) fn refused(front_end: FrontEnd, limit: Limit, count: u64) {
    counter!(REFUSED, "limit" => limit.name(), "protocol" => front_end.name()).increment(count);
}

pub(crate) fn sampled(front_end: FrontEnd, books: &FrontEndBooks) {
    let now = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    gauge!(CONNECTIONS, "protocol" => front_end.name()).set(now(&books.connections));
    gauge!(BYTES, "protocol" => front_end.name()).set(now(&books.bytes));
    let ever = |count: &AtomicU64| count.load(Ordering::Relaxed);
    counter!(OPENED, "protocol" => front_end.name()).absolute(ever(&books.opened));
    counter!(REQUESTS, "protocol" => front_end.name()).absolute(ever(&books.requests));
    for limit in Limit::ALL {
        // There from the start: the first refusal is a rise, then.
        refused(front_end, *limit, 0);
    }
    match front_end {
        FrontEnd::Amqp => {
            gauge!(LINKS).set(now(&books.links));
            gauge!(SESSIONS).set(now(&books.sessions));
        }
        FrontEnd::Http | FrontEnd::Grpc => (),
    }
}
