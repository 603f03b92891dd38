//! LIKE (RULE-32): a pattern as a row of places, all walked at once, or as texts that are looked for one
//! behind the other. The time is that of one pass over the text, whatever the pattern: nothing is ever
//! tried again.

use std::collections::BTreeMap;

/// Most characters of a pattern: as many as a rule's text may have (QUOTA-22), so that one that comes
/// from a property costs no more than one that is written out.
pub(super) const PATTERN_CHARS_MAX: usize = super::RULE_TEXT_CHARS_MAX;

/// A compiled pattern. Bit `i` of a set of places stands for "the first `i` items are matched"; an
/// item is a character or `_`, and a `%` lets its place stay.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    /// Of a pattern without `_`, which nearly all are: what stands between its `%`. A search for those, each
    /// behind the last, comes to the same, and takes a twentieth of the time.
    literals: Option<Vec<String>>,
    items: usize,
    /// Places at which any character may be passed over.
    loops: Vec<u64>,
    /// Items that are `_`.
    any: Vec<u64>,
    /// Items that a character matches, `_` included, for the characters of the pattern.
    matches: BTreeMap<char, Vec<u64>>,
}

impl Pattern {
    /// Nothing where the pattern is too long.
    pub fn new(pattern: &str, escape: Option<char>) -> Option<Pattern> {
        if pattern.chars().count() > PATTERN_CHARS_MAX {
            return None;
        }
        // Places are one more than items, and items no more than characters.
        let words = pattern.chars().count() / 64 + 1;
        let mut literals = vec![String::new()];
        let mut compiled = Pattern {
            literals: None,
            items: 0,
            loops: vec![0; words],
            any: vec![0; words],
            matches: BTreeMap::new(),
        };
        let (mut chars, mut has_any) = (pattern.chars(), false);
        while let Some(c) = chars.next() {
            let is_escaped = Some(c) == escape;
            // An escape at the very end has nothing to escape and stands for itself.
            let c = if is_escaped { chars.next().unwrap_or(c) } else { c };
            match c {
                '%' if !is_escaped => {
                    set(&mut compiled.loops, compiled.items);
                    literals.push(String::new());
                }
                '_' if !is_escaped => {
                    has_any = true;
                    set(&mut compiled.any, compiled.items);
                    compiled.items += 1;
                }
                _ => {
                    literals.last_mut().into_iter().for_each(|literal| literal.push(c));
                    let places = compiled.matches.entry(c).or_insert_with(|| vec![0; words]);
                    set(places, compiled.items);
                    compiled.items += 1;
                }
            }
        }
        for places in compiled.matches.values_mut() {
            places.iter_mut().zip(&compiled.any).for_each(|(places, any)| *places |= any);
        }
        compiled.literals = (!has_any).then_some(literals);
        Some(compiled)
    }

    pub fn matches(&self, text: &str) -> bool {
        if let Some(literals) = &self.literals {
            return matches_literals(literals, text);
        }
        if self.loops.len() == 1 {
            return self.matches_short(text);
        }
        let mut places = vec![0; self.loops.len()];
        set(&mut places, 0);
        for c in text.chars() {
            let matched = self.matches.get(&c).unwrap_or(&self.any);
            let mut carry = 0;
            for ((word, matched), loops) in places.iter_mut().zip(matched).zip(&self.loops) {
                let passed = *word & matched;
                *word = passed << 1 | carry | *word & loops;
                carry = passed >> 63;
            }
        }
        places[self.items / 64] & 1 << (self.items % 64) != 0
    }

    /// The same in one register: nearly every pattern has fewer than 64 items.
    fn matches_short(&self, text: &str) -> bool {
        let mut places = 1;
        for c in text.chars() {
            let matched = self.matches.get(&c).unwrap_or(&self.any)[0];
            places = (places & matched) << 1 | places & self.loops[0];
        }
        places & 1 << self.items != 0
    }
}

/// The first and the last stand at the ends of the text, others where they are found first: if those fit
/// in anywhere, they fit in there.
fn matches_literals(literals: &[String], text: &str) -> bool {
    let [first, between @ .., last] = literals else {
        return literals.first().is_some_and(|only| only == text);
    };
    let Some(text) = text.strip_prefix(first.as_str()) else { return false };
    let Some(mut text) = text.strip_suffix(last.as_str()) else { return false };
    for literal in between {
        let Some(at) = text.find(literal.as_str()) else { return false };
        text = &text[at + literal.len()..];
    }
    true
}

fn set(places: &mut [u64], place: usize) {
    places[place / 64] |= 1 << (place % 64);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By definition, in time that no broker could spend.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (['%', rest @ ..], _) => (0..=text.len()).any(|from| naive(rest, &text[from..])),
            (['_', rest @ ..], [_, after @ ..]) => naive(rest, after),
            ([c, rest @ ..], [d, after @ ..]) => c == d && naive(rest, after),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn rule_32_agrees_with_the_definition(pattern in "[ab_%]{0,8}", text in "[abé]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = naive(&chars(&pattern), &chars(&text));
            prop_assert_eq!(Pattern::new(&pattern, None).unwrap().matches(&text), expected);
            // The same beyond one register.
            let (long, prefix) = (format!("{}{pattern}", "x".repeat(70)), "x".repeat(70));
            let mut long = Pattern::new(&long, None).unwrap();
            let text = format!("{prefix}{text}");
            prop_assert_eq!(long.matches(&text), expected);
            // And by places, where there is a shorter way.
            long.literals = None;
            prop_assert_eq!(long.matches(&text), expected);
        }
    }

    #[test]
    fn rule_32_a_pattern_at_its_longest_has_a_place_for_its_end() {
        for chars in [63, 64, 65, 127, 128, PATTERN_CHARS_MAX] {
            let text = "x".repeat(chars);
            let pattern = Pattern::new(&text, None).unwrap();
            assert!(pattern.matches(&text), "{chars}");
            assert!(!pattern.matches(&text[1..]), "{chars}");
            let any = Pattern::new(&"_".repeat(chars), None).unwrap();
            assert!(any.matches(&text), "{chars}");
        }
        assert_eq!(Pattern::new(&"x".repeat(PATTERN_CHARS_MAX + 1), None), None);
    }
}
