//! A hierarchical timer wheel: arm, cancel, advance by a bounded count, and the exact next
//! deadline. Time is a bare `u64`; for this broker milliseconds since the Unix epoch (TIME-6), and
//! every value up to `u64::MAX` is a legal deadline.
//!
//! ```
//! let mut wheel = timer_wheel::Wheel::new();
//! wheel.arm("tea", 180_000);
//! let egg = wheel.arm("egg", 360_000);
//! assert_eq!(wheel.next_deadline(), Some(180_000));
//! assert_eq!(wheel.cancel(egg), Some("egg"));
//!
//! let mut fired = Vec::new();
//! wheel.advance(179_999, 10, &mut fired);
//! assert!(fired.is_empty()); // Never early (TIME-8).
//! wheel.advance(180_000, 10, &mut fired);
//! assert_eq!(fired[0].key, "tea"); // Reached when equal (TIME-5).
//! ```
//!
//! # Shape
//!
//! Time is read as eleven digits in base 64. A [`Wheel`] is a tree of dials; a dial has 64 slots,
//! one per value of its digit, and two words that say which are occupied and which are *unfolded*,
//! that is, hold a finer dial instead of a list of timers. The root turns once in 2^64 ms.
//!
//! A textbook wheel keeps one dial per level, places timers relative to its own hand, and cascades
//! a slot when the hand reaches it. Its next deadline is then known only to the width of a slot,
//! and the hand cannot run ahead to find out, because a timer may still be armed before it. Here
//! there is no hand: a slot unfolds when it comes to the front and holds more than
//! a handful, or when it grows long, and stays unfolded whatever is armed before it. So
//!
//! - arming appends to the first list on the way down: at most eleven steps, whatever the count;
//! - cancelling unlinks from a list, and an empty dial goes back to the slab;
//! - the next deadline is the least of a handful, found by two bit operations per level, however
//!   much empty time lies between, and is remembered until that very timer goes;
//! - a timer moves down at most once per level in its life, and no call moves more than
//!   some thousands at once, however many timers there are.

mod dial;
mod slab;
mod wheel;

pub use slab::Handle;
pub use wheel::{Fired, Wheel};
