//! LIKE (RULE-32): a pattern as texts that are looked for one behind the other, or, where it has a `_`, as
//! a row of places, all walked at once. The time is that of one pass over the text, whatever the pattern:
//! nothing is ever tried again.

use std::collections::BTreeMap;

use memchr::memmem::Finder;

use super::cost::MatchCost;

/// Most characters of a pattern: as many as a rule's text may have (QUOTA-22), so that one that comes
/// from a property costs no more than one that is written out.
pub(super) const PATTERN_CHARS_MAX: usize = super::RULE_TEXT_CHARS_MAX;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern(PatternShape);

#[derive(Clone, Debug, PartialEq)]
enum PatternShape {
    /// Neither `%` nor `_`.
    Whole(String),
    /// No `_`, which nearly all patterns have not.
    Literals(Literals),
    PlaceSets(PlaceSets),
}

/// One item of a pattern.
#[derive(Clone, Copy)]
enum PatternItem {
    Char(char),
    /// `_`
    One,
    /// `%`
    Run,
}

impl Pattern {
    /// Nothing where the pattern is too long.
    pub fn new(pattern: &str, escape: Option<char>) -> Option<Pattern> {
        if pattern.chars().count() > PATTERN_CHARS_MAX {
            return None;
        }
        let mut chars = pattern.chars();
        let mut items = Vec::with_capacity(pattern.len());
        while let Some(c) = chars.next() {
            let is_escaped = Some(c) == escape;
            // An escape at the very end has nothing to escape and stands for itself.
            let c = if is_escaped { chars.next().unwrap_or(c) } else { c };
            items.push(match c {
                '%' if !is_escaped => PatternItem::Run,
                '_' if !is_escaped => PatternItem::One,
                c => PatternItem::Char(c),
            });
        }
        let has = |wanted: fn(&PatternItem) -> bool| items.iter().any(wanted);
        Some(Pattern(if has(|item| matches!(item, PatternItem::One)) {
            PatternShape::PlaceSets(PlaceSets::new(&items))
        } else if has(|item| matches!(item, PatternItem::Run)) {
            PatternShape::Literals(Literals::new(&items))
        } else {
            PatternShape::Whole(text(&items))
        }))
    }

    /// Whether all of the text is as the pattern says. A byte looked at is a unit, and a character at
    /// so many places one for each 64 of them.
    pub fn matches(&self, text: &str, cost: &mut MatchCost) -> bool {
        match &self.0 {
            PatternShape::Whole(whole) => {
                cost.bytes(whole.len().min(text.len()));
                whole == text
            }
            PatternShape::Literals(literals) => literals.matches(text, cost),
            PatternShape::PlaceSets(places) => places.matches(text, cost),
        }
    }
}

fn text(items: &[PatternItem]) -> String {
    let char = |item: &PatternItem| match item {
        PatternItem::Char(c) => Some(*c),
        PatternItem::One | PatternItem::Run => None,
    };
    items.iter().filter_map(char).collect()
}

/// The first and the last stand at the ends of a text, others where they are found first: if those fit in
/// anywhere, they fit in there.
#[derive(Clone, Debug)]
struct Literals {
    first: String,
    between: Vec<Finder<'static>>,
    last: String,
}

impl PartialEq for Literals {
    fn eq(&self, other: &Literals) -> bool {
        let needles = |of: &Literals| -> Vec<Vec<u8>> {
            of.between.iter().map(|finder| finder.needle().to_vec()).collect()
        };
        self.first == other.first && self.last == other.last && needles(self) == needles(other)
    }
}

impl Literals {
    /// Of a pattern with at least one run.
    fn new(items: &[PatternItem]) -> Literals {
        let mut parts = items.split(|item| matches!(item, PatternItem::Run)).map(text);
        let first = parts.next().unwrap_or_default();
        let last = parts.next_back().unwrap_or_default();
        let between = parts.filter(|part| !part.is_empty());
        let between = between.map(|part| Finder::new(part.as_bytes()).into_owned()).collect();
        Literals { first, between, last }
    }

    fn matches(&self, text: &str, cost: &mut MatchCost) -> bool {
        cost.bytes((self.first.len() + self.last.len()).min(text.len()));
        let Some(text) = text.strip_prefix(self.first.as_str()) else { return false };
        let Some(text) = text.strip_suffix(self.last.as_str()) else { return false };
        // A literal of whole characters is found at whole characters only.
        let mut rest = text.as_bytes();
        for literal in &self.between {
            cost.operation();
            let Some(at) = literal.find(rest) else {
                cost.bytes(rest.len());
                return false;
            };
            let end = at + literal.needle().len();
            cost.bytes(end);
            rest = &rest[end..];
        }
        true
    }
}

/// Bit `i` of a set of places stands for "the first `i` items are matched"; an item is a character or `_`,
/// and a `%` lets its place stay.
#[derive(Clone, Debug, PartialEq)]
struct PlaceSets {
    items: usize,
    /// Of 64 places each, in every set.
    words: usize,
    /// PlaceSets at which any character may be passed over.
    loops: Vec<u64>,
    /// Sets of the items that a character matches, `_` included, one set after the other: that of
    /// characters which the pattern does not name, and those of the ones it names.
    matched: Vec<u64>,
    /// Which set is whose, in ASCII and beyond; 0 is the first.
    ascii: Box<[u16; 128]>,
    beyond: BTreeMap<char, u16>,
}

impl PlaceSets {
    fn new(items: &[PatternItem]) -> PlaceSets {
        // One place more than there are characters to match.
        let matched = items.iter().filter(|item| !matches!(item, PatternItem::Run)).count();
        let words = matched / 64 + 1;
        let mut places = PlaceSets {
            items: 0,
            words,
            loops: vec![0; words],
            matched: vec![0; words],
            ascii: Box::new([0; 128]),
            beyond: BTreeMap::new(),
        };
        for item in items {
            match *item {
                PatternItem::Run => {
                    set(&mut places.loops, places.items);
                    continue;
                }
                PatternItem::One => set(&mut places.matched[..words], places.items),
                PatternItem::Char(c) => {
                    let at = usize::from(places.set_for(c)) * words;
                    set(&mut places.matched[at..at + words], places.items);
                }
            }
            places.items += 1;
        }
        let (any, named) = places.matched.split_at_mut(words);
        for places in named.chunks_exact_mut(words) {
            places.iter_mut().zip(&*any).for_each(|(places, any)| *places |= any);
        }
        places
    }

    /// The set of a character that the pattern names, made if it has none.
    fn set_for(&mut self, c: char) -> u16 {
        let next = (self.matched.len() / self.words) as u16; // No more than characters.
        let of = match self.ascii.get_mut(c as usize) {
            Some(of) => of,
            None => self.beyond.entry(c).or_default(),
        };
        if *of == 0 {
            *of = next;
            self.matched.resize(self.matched.len() + self.words, 0);
        }
        *of
    }

    fn matched(&self, c: char) -> &[u64] {
        let of = match self.ascii.get(c as usize) {
            Some(of) => *of,
            None => self.beyond.get(&c).copied().unwrap_or_default(),
        };
        let at = usize::from(of) * self.words;
        &self.matched[at..at + self.words]
    }

    fn matches(&self, text: &str, cost: &mut MatchCost) -> bool {
        if self.words == 1 {
            return self.matches_short(text, cost);
        }
        let mut places = vec![0; self.words];
        set(&mut places, 0);
        cost.bytes(text.len() * self.words);
        for c in text.chars() {
            let mut carry = 0;
            for ((word, matched), loops) in places.iter_mut().zip(self.matched(c)).zip(&self.loops)
            {
                let passed = *word & matched;
                *word = passed << 1 | carry | *word & loops;
                carry = passed >> 63;
            }
        }
        places[self.items / 64] & 1 << (self.items % 64) != 0
    }

    /// The same in one register: nearly every pattern has fewer than 64 items.
    fn matches_short(&self, text: &str, cost: &mut MatchCost) -> bool {
        let (mut places, loops) = (1, self.loops[0]);
        for (at, c) in text.char_indices() {
            places = (places & self.matched(c)[0]) << 1 | places & loops;
            if places == 0 {
                cost.bytes(at + 1);
                return false;
            }
        }
        cost.bytes(text.len());
        places & 1 << self.items != 0
    }
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

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern, None).unwrap().matches(text, &mut MatchCost::default())
    }

    proptest! {
        #[test]
        fn rule_32_agrees_with_the_definition(pattern in "[abé_%]{0,8}", text in "[abé]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = naive(&chars(&pattern), &chars(&text));
            prop_assert_eq!(matches(&pattern, &text), expected);
            // The same beyond one register.
            let prefix = "x".repeat(70);
            let (long, text) = (format!("{prefix}{pattern}"), format!("{prefix}{text}"));
            prop_assert_eq!(matches(&long, &text), expected);
            // And by places, where there is a shorter way.
            let items: Vec<PatternItem> = long.chars().map(|c| match c {
                '%' => PatternItem::Run,
                '_' => PatternItem::One,
                c => PatternItem::Char(c),
            }).collect();
            let by_places = PlaceSets::new(&items).matches(&text, &mut MatchCost::default());
            prop_assert_eq!(by_places, expected);
        }
    }

    #[test]
    fn rule_32_a_pattern_at_its_longest_has_a_place_for_its_end() {
        for chars in [63, 64, 65, 127, 128, PATTERN_CHARS_MAX] {
            let text = "x".repeat(chars);
            assert!(matches(&text, &text), "{chars}");
            assert!(!matches(&text, &text[1..]), "{chars}");
            let any = "_".repeat(chars);
            assert!(matches(&any, &text), "{chars}");
            assert!(!matches(&any, &text[1..]), "{chars}");
        }
        assert_eq!(Pattern::new(&"x".repeat(PATTERN_CHARS_MAX + 1), None), None);
    }

    #[test]
    fn rule_32_more_characters_than_ascii_has_are_told_apart() {
        let named: String = ('à'..='ÿ').chain('a'..='z').collect();
        assert!(matches(&format!("_%{named}"), &format!("x-{named}")));
        assert!(!matches(&format!("_%{named}"), &format!("x-{}", &named[2..])));
    }
}
