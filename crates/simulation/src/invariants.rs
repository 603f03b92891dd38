//! What must hold, one file each, with where it is promised. Some are asked at every entry of the
//! log, as it moves a message; the rest at every tick, over rows, replicas and engines.

pub mod conservation;
pub mod credit;
pub mod early_expiry;
pub mod expired_delivery;
pub mod lost;
pub mod one_lock;
pub mod one_place;
pub mod order;
pub mod repeats;
pub mod replicas;
pub mod settled;
pub mod wheel;
