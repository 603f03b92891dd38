//! The specification's rules, told as tables: one test for each rule that a group can decide, named
//! for it. What is not here is listed with its reason in `tests/rules-untested.toml`.

#[path = "../support/mod.rs"]
mod support;

mod forwards;
mod mover;
mod table;
mod table_sessions;
mod topic;
mod words;

mod batch;
mod bounds;
mod catalog;
mod count;
mod cuts;
mod defer;
mod dlq;
mod documents;
mod dup;
mod ended_creations;
mod ent;
mod err;
mod fan_out;
mod fault_rules;
mod fwd;
mod fwd_sides;
mod fwd_via;
mod hist;
mod idle;
mod idle_namespaces;
mod idle_topics;
mod level;
mod lock;
mod lock_limits;
mod lock_updates;
mod match_budget;
mod msg;
mod namespaces;
mod peek;
mod places;
mod profiles;
mod quota;
mod relocations;
mod rule;
mod sched;
mod sel;
mod send;
mod send_again;
mod seq;
mod sess;
mod sess_ends;
mod sess_limits;
mod state;
mod time;
mod told;
mod traced;
mod ttl;
mod ttl_entity;
mod ttl_moved;
mod tx;
