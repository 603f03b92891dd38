//! One group as the node that leads it drives it, and the near end of it that the rest of the node holds.

mod bodies;
mod claims;
mod entity_tallies;
mod feature_level;
mod group;
mod inputs;
mod receiver_table;
mod waitlist;

mod driver;
mod reader;

pub(crate) use self::driver::{Driver, FORWARDS_WAITING_MAX, ForwardRequest};
pub(crate) use self::entity_tallies::EntityTallies;
pub(crate) use self::group::{Ends, Group, Groups, Input};
pub(crate) use self::reader::{answer, read_for};
pub(crate) use self::waitlist::{excess, settle_requests};
