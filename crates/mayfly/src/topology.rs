//! Definitions and a cluster: what it has, and the steps that make it what a file says. Whatever brings
//! definitions (`mayfly definitions`, `--emulator-config`) goes this way.

mod apply;
mod state;

pub use apply::apply;
pub use state::found;
