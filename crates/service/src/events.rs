//! What changed in the cluster, as far as this node is the one to tell it: a bounded ring in memory, and a line of the
//! log with the same words.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// Events that a node keeps. With one more the oldest is gone.
pub const EVENTS_KEPT_MAX: usize = 4_096;
/// Lines of the log in a second; what is told beyond them is counted in the next second's first.
const LINES_PER_SECOND_MAX: u32 = 100;

/// One change. It is told by one node only: whoever was asked for it, or brought it about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// In the order in which the node told them, from 1.
    pub number: u64,
    /// By the node's time of day, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What kind of change, as in "entity.create": of what somebody asked for, the action in the audit trail.
    pub kind: &'static str,
    /// The entity, node, group or other object.
    pub about: String,
    /// For people, in one line.
    pub text: String,
    /// Who asked for it; empty: nobody did, or nobody was asked who he is.
    pub by: String,
}

/// Some of a ring's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    pub events: Vec<ClusterEvent>,
    /// The number of the last event that was looked at: where to go on.
    pub last: u64,
    /// So many were told after the one that was known, and are kept no more.
    pub lost: u64,
    pub more: bool,
}

/// The ring of a node. Clones are one.
#[derive(Clone, Debug)]
pub struct Events(Arc<Ring>);

#[derive(Debug)]
struct Ring {
    /// By when the process started: numbers begin anew with it.
    run: u32,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    events: VecDeque<ClusterEvent>,
    lines: Lines,
}

/// How much goes to the log.
#[derive(Debug, Default)]
struct Lines {
    second: u64,
    told: u32,
    untold: u64,
}

impl Lines {
    /// How many were left out before this one, or `None` if this one is left out.
    fn take(&mut self, at_ms: u64) -> Option<u64> {
        if at_ms / 1_000 != self.second {
            (self.second, self.told) = (at_ms / 1_000, 0);
        }
        self.told += 1;
        if self.told > LINES_PER_SECOND_MAX {
            self.untold += 1;
            return None;
        }
        Some(std::mem::take(&mut self.untold))
    }
}

impl Default for Events {
    fn default() -> Events {
        let run = u32::try_from(since_epoch_ms() / 1_000 % (1 << 31)).unwrap_or(0);
        Events(Arc::new(Ring { run, kept: Mutex::default() }))
    }
}

impl Events {
    /// Something changed. `by`: as [`ClusterEvent::by`] has it.
    pub fn tell(&self, kind: &'static str, about: &str, text: String, by: String) {
        self.tell_at(since_epoch_ms(), kind, about, text, by);
    }

    /// The same of what consists of several steps: those within that time after the first are the same change.
    pub fn tell_again(
        &self,
        kind: &'static str,
        about: &str,
        text: String,
        by: String,
        within: Duration,
    ) {
        let at_ms = since_epoch_ms();
        let from_ms = at_ms.saturating_sub(u64::try_from(within.as_millis()).unwrap_or(u64::MAX));
        let is_told = {
            let kept = self.0.kept.lock();
            let mut recent = kept.events.iter().rev().take_while(|event| event.at_ms >= from_ms);
            recent.any(|event| event.kind == kind && event.about == about && event.by == by)
        };
        if !is_told {
            self.tell_at(at_ms, kind, about, text, by);
        }
    }

    fn tell_at(&self, at_ms: u64, kind: &'static str, about: &str, text: String, by: String) {
        let mut kept = self.0.kept.lock();
        kept.last += 1;
        let event =
            ClusterEvent { number: kept.last, at_ms, kind, about: about.to_owned(), text, by };
        if let Some(untold) = kept.lines.take(at_ms) {
            let untold = (untold > 0).then_some(untold);
            let by = (!event.by.is_empty()).then_some(&event.by);
            tracing::info!(event = kind, by, untold, "{}", event.text);
        }
        if kept.events.len() == EVENTS_KEPT_MAX {
            kept.events.pop_front();
        }
        kept.events.push_back(event);
    }

    /// Which process of the node it is: another has other numbers.
    pub fn run(&self) -> u32 {
        self.0.run
    }

    /// Those after the one of that number, 0 for all that are kept, that were told since then; `max` of them at most.
    pub fn after(&self, number: u64, since_ms: u64, max: usize) -> EventPage {
        let kept = self.0.kept.lock();
        let first = kept.events.front().map_or(kept.last + 1, |event| event.number);
        let lost = if number == 0 { 0 } else { first.saturating_sub(number + 1) };
        let later = kept.events.iter().filter(|event| event.number > number);
        let mut later = later.filter(|event| event.at_ms >= since_ms);
        let events: Vec<ClusterEvent> = later.by_ref().take(max).cloned().collect();
        let more = later.next().is_some();
        let last = match (more, events.last()) {
            (true, Some(event)) => event.number,
            _ => kept.last,
        };
        EventPage { events, last, lost, more }
    }
}

fn since_epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(events: &Events, at_ms: u64, about: &str) {
        events.tell_at(
            at_ms,
            "entity.create",
            about,
            format!("'{about}' is created"),
            String::new(),
        );
    }

    fn about(page: &EventPage) -> Vec<&str> {
        page.events.iter().map(|event| event.about.as_str()).collect()
    }

    #[test]
    fn events_are_read_on_from_where_somebody_was() {
        let events = Events::default();
        assert_eq!(events.after(0, 0, 10), EventPage::default());
        for (at_ms, name) in [(10, "a"), (20, "b"), (30, "c")] {
            tell(&events, at_ms, name);
        }
        let page = events.after(0, 0, 2);
        assert_eq!((about(&page), page.last, page.more), (vec!["a", "b"], 2, true));
        let page = events.after(page.last, 0, 2);
        assert_eq!((about(&page), page.last, page.more), (vec!["c"], 3, false));
        let page = events.after(page.last, 0, 2);
        assert_eq!((about(&page), page.last, page.lost), (vec![], 3, 0));
        let page = events.after(0, 20, 10);
        assert_eq!((about(&page), page.last), (vec!["b", "c"], 3));
        assert_eq!(
            events.after(0, 99, 10).last,
            3,
            "there is nothing before that to be read later"
        );
    }

    #[test]
    fn steps_of_one_change_are_told_once() {
        let events = Events::default();
        let tell = |about: &str, by: &str, within| {
            events.tell_again(
                "messages.purge",
                about,
                "it is purged".to_owned(),
                by.to_owned(),
                within,
            );
        };
        const LONG: Duration = Duration::from_secs(3600);
        tell("q", "a", LONG);
        tell("other", "a", LONG);
        tell("q", "b", LONG);
        tell("q", "a", LONG);
        assert_eq!(about(&events.after(0, 0, 10)), ["q", "other", "q"]);
    }

    #[test]
    fn what_is_kept_no_more_is_counted() {
        let events = Events::default();
        for number in 0..EVENTS_KEPT_MAX as u64 + 5 {
            tell(&events, number, "q");
        }
        let page = events.after(2, 0, 1);
        assert_eq!((page.events[0].number, page.lost), (6, 3));
        assert_eq!(events.after(0, 0, 1).lost, 0, "who knew none has lost none");
    }

    #[test]
    fn the_log_has_so_many_lines_in_a_second_and_says_what_it_left_out() {
        let mut lines = Lines::default();
        let told = (0..LINES_PER_SECOND_MAX + 3).filter(|_| lines.take(5_000).is_some()).count();
        assert_eq!(told, LINES_PER_SECOND_MAX as usize);
        assert_eq!(lines.take(6_000), Some(3));
        assert_eq!(lines.take(6_000), Some(0));
    }
}
