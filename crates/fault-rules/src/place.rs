//! Where a rule applies.

use domain::{Filter, MatchCost};

use crate::event::Event;
use crate::operation::{Operation, Protocol};

/// A name, in which `*` stands for any text. Case does not count, as in names of entities (ENT-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(String);

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        Pattern(text.to_lowercase())
    }

    /// Goes back to the last star only, so it takes at most the product of both lengths.
    pub fn fits(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut seen, mut star) = (0, 0, None);
        while seen < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(byte) if *byte == name[seen] => (at, seen) = (at + 1, seen + 1),
                _ => {
                    let Some((star_at, from)) = star else { return false };
                    star = Some((star_at, from + 1));
                    (at, seen) = (star_at + 1, from + 1);
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

/// What an event must be. What is absent may be anything.
#[derive(Clone, Debug)]
pub struct Place {
    pub(crate) operations: Vec<Operation>,
    pub(crate) entity: Option<Pattern>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) client: Option<Pattern>,
    pub(crate) link: Option<Pattern>,
    pub(crate) key: Option<Pattern>,
    pub(crate) filter: Option<Filter>,
}

impl Place {
    pub(crate) fn takes(&self, event: &Event<'_>) -> bool {
        let fits = |pattern: &Option<Pattern>, name| {
            pattern.as_ref().is_none_or(|pattern| pattern.fits(name))
        };
        self.operations.contains(&event.operation)
            && self.protocol.is_none_or(|protocol| protocol == event.protocol)
            && fits(&self.entity, event.entity)
            && fits(&self.client, event.client)
            && fits(&self.link, event.link)
            && fits(&self.key, event.key)
            && self.selects(event)
    }

    /// A message that cannot be read, or on which the filter fails, is not meant.
    fn selects(&self, event: &Event<'_>) -> bool {
        let Some(filter) = &self.filter else { return true };
        let Some(headed) = event.headed() else { return false };
        let draw = &mut || 0;
        filter.matches_charged(headed, draw, &mut MatchCost::default()).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_2_a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("orders", "orders", true),
            ("orders", "Orders", true),
            ("orders", "orders2", false),
            ("orders*", "orders", true),
            ("orders*", "orders/$deadletterqueue", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*b*", "abc", true),
            ("a*b*c", "aXXbYYc", true),
            ("a*b*c", "aXXbYY", false),
            ("*aab", "aaaab", true),
            ("worker-*-1", "worker-blue-1", true),
            ("worker-*-1", "worker-blue-2", false),
        ] {
            assert_eq!(Pattern::new(pattern).fits(name), fits, "'{pattern}' '{name}'");
        }
    }
}
