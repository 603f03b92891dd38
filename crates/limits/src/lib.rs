//! What one connection, one key, one address and one namespace may take of a node, so that one client cannot take
//! it down, and a namespace of a tier is as slow as that. Limits are declared in one table ([`Limit`]), counted in one place ([`Ledger`]), and told by every
//! front end in its own words.
//!
//! The ledger also knows which connections there are: who has a place is listed, and can be told to end.
//!
//! What is checked with every batch are atomic counters that a connection holds; nothing is locked but when
//! a connection or a link is opened, or it proves who it is, or is asked something with another key than its
//! first.
//!
//! Reading order: the limits, what is told of one that was reached, rates, accounts, namespaces, connections and the list of
//! them, the ledger, metrics.

mod limit;

mod exceeded;

mod rate;

mod account;

mod connection;
mod registry;

mod tenant;

mod ledger;

mod usage;

mod metric;

pub use connection::{
    ClientInfo, ConnectionId, ConnectionInfo, LINKS_TOLD_MAX, LinkInfo, LinkRole, ListedLink,
    NoConnectionId, Origin,
};
pub use exceeded::Exceeded;
pub use ledger::{Ledger, Load, Party, Slot};
pub use limit::{Answer, FrontEnd, Limit, MANAGEMENT_CREDITS, Scope, Settings};
pub use metric::describe;
pub use tenant::CreditBank;
pub use usage::Usage;
