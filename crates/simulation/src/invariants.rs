//! What must hold, one file each, with where it is promised. Some are asked at every entry of the
//! log, as it moves a message, or at every vote, stamp and election; the rest at every tick, over
//! rows, replicas and engines, or at the end.

pub mod atomic;
pub mod committed;
pub mod conservation;
pub mod copies;
pub mod credit;
pub mod early_expiry;
pub mod expired_delivery;
pub mod lateness;
pub mod lost;
pub mod once;
pub mod one_holder;
pub mod one_lock;
pub mod one_place;
pub mod order;
pub mod recovered;
pub mod repeats;
pub mod replicas;
pub mod settled;
pub mod stamps;
pub mod votes;
pub mod wheel;
