//! What a file comes to: each producer and consumer, and the places they meet at.

use std::time::Duration;

use client::QueuePath;
use domain::{Described, Patch, PropertyValue};

use crate::file::{Consumers, LoadFile, Producers};
use crate::ledger::{Ledger, Place};
use crate::place::{is_dead_letter, queue_path};

/// How the path of a subscription goes on after its topic's name.
const SUBSCRIPTIONS: &str = "/subscriptions/";
/// A property of entities: what is sent to them may expire.
const DEFAULT_TTL: &str = "default_ttl";
/// Another: what expires is kept among the dead letters.
const DEAD_LETTERS_EXPIRED: &str = "dead_letter_on_expiration";
/// Another, and what it is where nothing is said (LOCK-4).
const LOCK_DURATION: &str = "lock_duration";
const LOCK_MS: u64 = 60_000;

/// Which of how many generators this is: together they are the whole load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub index: usize,
    /// At least 1.
    pub count: usize,
}

impl Part {
    /// The one there is.
    pub const WHOLE: Part = Part { index: 0, count: 1 };

    /// Whether the producer of that number, over all kinds, is here. They go round, so that each generator has its share
    /// of every rate.
    pub fn has_producer(&self, number: usize) -> bool {
        number % self.count == self.index
    }

    /// Whether what only one may see of a place is seen here: the order in its sessions, its dead letters.
    pub fn has_place(&self, number: usize) -> bool {
        number % self.count == self.index
    }
}

/// Every producer by itself, in the order of their numbers.
pub fn producers(file: &LoadFile) -> Vec<(&Producers, u32)> {
    let each = |of| (0..).zip(std::iter::repeat_n(of, Producers::count(of)));
    file.producers.iter().flat_map(each).map(|(index, of)| (of, index)).collect()
}

/// Every consumer by itself, with its place.
pub fn consumers<'a>(file: &'a LoadFile, ledger: &Ledger) -> Vec<(&'a Consumers, usize)> {
    let mut all = Vec::new();
    for of in &file.consumers {
        let path = place(&of.from);
        let at = ledger.places().position(|place| place.path == path).unwrap_or_default();
        all.extend((0..of.count).map(|_| (of, at)));
    }
    all
}

impl Producers {
    fn count(&self) -> usize {
        self.count as usize
    }
}

/// What is taken from, less what says that it is its dead letters; names have no case (ENT-1).
pub fn place(from: &str) -> String {
    let QueuePath { queue, .. } = queue_path(from);
    queue.to_ascii_lowercase()
}

/// The ledger of a run.
pub fn ledger(file: &LoadFile) -> Ledger {
    let producers = producers(file);
    let mortal = producers.iter().map(|(of, _)| is_mortal(file, of)).collect();
    let mut places: Vec<Place> = Vec::new();
    for of in &file.consumers {
        let path = place(&of.from);
        let at = places.iter().position(|place| place.path == path).unwrap_or_else(|| {
            let feeds = |of: &Producers| is_fed(file, &path, &of.to.to_ascii_lowercase());
            let feed = producers.iter().enumerate().filter(|(_, (of, _))| feeds(of));
            let producers = feed.map(|(index, _)| index).collect();
            places.push(Place { path: path.clone(), producers, is_consumed: false });
            places.len() - 1
        });
        // What expires comes to whoever takes the dead letters.
        places[at].is_consumed |= !is_dead_letter(&of.from) || keeps_expired(file, &path);
    }
    Ledger::new(file.source.run, mortal, places)
}

/// Whether a place that the run made has what expires among its dead letters.
fn keeps_expired(file: &LoadFile, path: &str) -> bool {
    let entities = &file.entities;
    let queue = entities.queues.iter().find(|queue| queue.name.eq_ignore_ascii_case(path));
    let subscription = entities.subscriptions.iter().find(|of| {
        client::subscription_path(&of.topic, &of.entity.name).eq_ignore_ascii_case(path)
    });
    queue.is_some_and(|of| is_given(&of.properties, DEAD_LETTERS_EXPIRED))
        || subscription.is_some_and(|of| is_given(&of.entity.properties, DEAD_LETTERS_EXPIRED))
}

fn is_given<P: Described>(of: &Patch<P>, name: &str) -> bool {
    of.given().any(|(property, value)| property.name == name && value == PropertyValue::Flag(true))
}

/// Whether all that is sent there comes here: to the queue itself, or to the topic of a subscription of this file
/// that has no rules. Of a subscription that was there nobody knows what it lets pass.
fn is_fed(file: &LoadFile, path: &str, to: &str) -> bool {
    if path == to {
        return true;
    }
    let rest = path.strip_prefix(to).and_then(|rest| rest.strip_prefix(SUBSCRIPTIONS));
    let Some(name) = rest else { return false };
    file.entities.subscriptions.iter().any(|of| {
        let is_it = of.topic.eq_ignore_ascii_case(to) && of.entity.name.eq_ignore_ascii_case(name);
        is_it && of.rules.is_none()
    })
}

/// Whether what such a producer sends may expire.
pub fn is_mortal(file: &LoadFile, of: &Producers) -> bool {
    let to = &of.to;
    let entities = &file.entities;
    let queues = entities.queues.iter().filter(|queue| queue.name.eq_ignore_ascii_case(to));
    let topics = entities.topics.iter().filter(|topic| topic.name.eq_ignore_ascii_case(to));
    let its = entities.subscriptions.iter().filter(|one| one.topic.eq_ignore_ascii_case(to));
    of.ttl.is_some()
        || queues.flat_map(|of| of.properties.given()).any(|(of, _)| of.name == DEFAULT_TTL)
        || topics.flat_map(|of| of.properties.given()).any(|(of, _)| of.name == DEFAULT_TTL)
        || its.flat_map(|of| of.entity.properties.given()).any(|(of, _)| of.name == DEFAULT_TTL)
}

/// Whether a place is one that the run made, so that its dead letters are the run's.
pub fn is_own(file: &LoadFile, path: &str) -> bool {
    file.entities.queues.iter().any(|queue| queue.name.eq_ignore_ascii_case(path))
        || file.entities.subscriptions.iter().any(|of| {
            let its = client::subscription_path(&of.topic, &of.entity.name);
            its.eq_ignore_ascii_case(path)
        })
}

/// The topic and the name of a place that is a subscription.
pub fn subscription(path: &str) -> Option<(&str, &str)> {
    let at = path.to_ascii_lowercase().find(SUBSCRIPTIONS)?;
    Some((&path[..at], &path[at + SUBSCRIPTIONS.len()..]))
}

/// How long a lock lasts at a place that the run made.
pub fn lock_ms(file: &LoadFile, path: &str) -> Option<u64> {
    if !is_own(file, path) {
        return None;
    }
    let entities = &file.entities;
    let mut queues = entities.queues.iter();
    let queue = queues.find(|queue| queue.name.eq_ignore_ascii_case(path));
    let mut subscriptions = entities.subscriptions.iter();
    let subscription = subscriptions.find(|of| {
        client::subscription_path(&of.topic, &of.entity.name).eq_ignore_ascii_case(path)
    });
    let given = match (queue, subscription) {
        (Some(queue), _) => given_ms(&queue.properties),
        (None, Some(of)) => given_ms(&of.entity.properties),
        (None, None) => None,
    };
    Some(given.unwrap_or(LOCK_MS))
}

fn given_ms<P: Described>(of: &Patch<P>) -> Option<u64> {
    of.given().find_map(|(property, value)| match value {
        PropertyValue::Duration(span) if property.name == LOCK_DURATION => Some(span.0),
        _ => None,
    })
}

/// Messages may be on their way for so long after they were sent.
pub fn longest_wait(file: &LoadFile) -> Duration {
    let waits = file.producers.iter().filter_map(|of| of.schedule.as_ref());
    waits.map(|times| times.max()).max().unwrap_or_default()
}

/// The longest life that a producer gives.
pub fn longest_life(file: &LoadFile) -> Duration {
    let lives = file.producers.iter().filter_map(|of| of.ttl.as_ref());
    lives.map(|times| times.max()).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
[[queues]]
name = \"Orders\"
default_ttl = \"1h\"
[[queues]]
name = \"mortal\"
dead_letter_on_expiration = true
[[topics]]
name = \"prices\"
[[topics.subscriptions]]
name = \"all\"
lock_duration = \"5s\"
[[topics.subscriptions]]
name = \"some\"
rules = [{ name = \"few\", filter = \"a > 1\" }]
[[producers]]
to = \"orders\"
count = 2
[[producers]]
to = \"prices\"
schedule = \"1s..5s\"
[[consumers]]
from = \"orders\"
[[consumers]]
from = \"Orders/$DeadLetterQueue\"
count = 2
[[consumers]]
from = \"prices/Subscriptions/all\"
[[consumers]]
from = \"prices/Subscriptions/some\"
[[consumers]]
from = \"other/$deadletterqueue\"
[[consumers]]
from = \"mortal/$deadletterqueue\"
";

    #[test]
    fn producers_feed_the_places_that_all_their_messages_come_to() {
        let file = LoadFile::parse(FILE, "f", 1, None).expect("a file");
        let ledger = ledger(&file);
        let found: Vec<(&str, &[usize], bool)> = ledger
            .places()
            .map(|of| (of.path.as_str(), of.producers.as_slice(), of.is_consumed))
            .collect();
        assert_eq!(
            found,
            [
                ("orders", &[0, 1][..], true),
                ("prices/subscriptions/all", &[2], true),
                ("prices/subscriptions/some", &[], true),
                ("other", &[], false),
                ("mortal", &[], true),
            ]
        );
        let places: Vec<usize> = consumers(&file, &ledger).iter().map(|(_, at)| *at).collect();
        assert_eq!(places, [0, 0, 0, 1, 2, 3, 4]);
        let numbers: Vec<u32> = producers(&file).iter().map(|(_, index)| *index).collect();
        assert_eq!(numbers, [0, 1, 0]);
        assert!(is_mortal(&file, &file.producers[0]) && !is_mortal(&file, &file.producers[1]));
        assert!(is_own(&file, "orders") && is_own(&file, "prices/subscriptions/all"));
        assert!(!is_own(&file, "other"));
        assert_eq!(lock_ms(&file, "orders"), Some(60_000));
        assert_eq!(lock_ms(&file, "prices/subscriptions/all"), Some(5_000));
        assert_eq!(lock_ms(&file, "other"), None);
        assert_eq!(subscription("prices/Subscriptions/all"), Some(("prices", "all")));
        assert_eq!(subscription("orders"), None);
        assert_eq!(longest_wait(&file), Duration::from_secs(5));
    }
}
