//! What to do next. Where `domain` says what is true, the engine of a group says what its leader
//! should propose: which timers are due, which waiting receiver gets what became available, and which
//! entities nobody uses.
//!
//! It is leader-only and forgettable. Everything in it is a hint that rows decide on, nothing in it
//! is needed to know what happened, and a new leader builds it again from rows ([`Engine::rebuild`])
//! and from what its receivers grant anew. It has no clock, socket or runtime: it takes `now`,
//! requests and effects, and returns commands.
//!
//! Whether its clock may stamp, [`agreement`] says, from what the clocks of the group's nodes show.
//! Which replica moves to which node, [`placement`] says at the catalog's leader.
//!
//! **Invariant**: after any history a rebuilt engine has the timers of the running one, and what
//! the wheel would fire next is what the rows say is due next.

pub mod agreement;
pub mod placement;

mod coordinator;
mod credit;
mod fanout;
mod forwards;
mod idle;
mod match_limits;
mod options;
mod rebuild;
mod session_timers;
mod sessions;
mod timers;

mod engine;

pub use coordinator::{candidates, unused};
pub use engine::Engine;
pub use forwards::{Carried, ForwardTask};
pub use idle::{Candidate, Looked};
pub use options::EngineOptions;
pub use timers::Timer;
