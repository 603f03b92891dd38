//! The two databases on a real disk: what they keep, what they lose when a node dies, and what they
//! make of files that are not as they left them.

mod again;
mod crash;
mod damage;
mod forgotten;
mod log;
mod log_model;
mod power;
mod refused;
mod rows;
mod support;
mod transfer;
