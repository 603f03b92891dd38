//! Names of places as files have them.

use client::QueuePath;
use client::v1::SubQueue;

/// How the path of a dead-letter queue ends.
pub const DEAD_LETTER: &str = "/$deadletterqueue";

/// The path of what a file calls a place.
pub fn queue_path(place: &str) -> QueuePath {
    match place.len().checked_sub(DEAD_LETTER.len()).and_then(|at| place.split_at_checked(at)) {
        Some((queue, end)) if end.eq_ignore_ascii_case(DEAD_LETTER) => {
            QueuePath::dead_letter(queue)
        }
        _ => QueuePath::main(place),
    }
}

/// Whether a place is one of dead letters.
pub fn is_dead_letter(place: &str) -> bool {
    queue_path(place).sub_queue == SubQueue::DeadLetter
}
