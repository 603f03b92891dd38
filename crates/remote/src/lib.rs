//! Processes of ours on other machines that do what one coordinator asks, such as the workers of a load test and the
//! agents of a fault experiment: how they are reached, and how a coordinator shows that it is theirs.
//!
//! Invariants: the secret is never on its way, a proof that was overheard is of no use for long, and for nothing but
//! the kind of process it was made for; what goes wrong is told in one sentence, without the process's name before it.

mod place;
mod proof;
mod server;

pub use place::{Places, gone, refusal};
pub use proof::{Audience, verify};
pub use server::{ServerTls, serve};
