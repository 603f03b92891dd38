//! The order in which queues are created that forward to each other: a destination has to be there
//! first (FWD-2).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// When an entity is created, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Which of them.
    pub index: usize,
    /// It is in a circle: its destinations are set when all are there.
    pub is_split: bool,
}

/// `entities`: each by its name in lower case, and what it forwards to. Destinations that are not among
/// them are there.
pub(crate) fn creation(entities: &[(String, Vec<String>)]) -> Vec<Turn> {
    let places: BTreeMap<&str, usize> =
        entities.iter().enumerate().map(|(index, (name, _))| (name.as_str(), index)).collect();
    let mut sources: Vec<Vec<usize>> = vec![Vec::new(); entities.len()];
    let mut missing = vec![0_usize; entities.len()];
    for (index, (_, destinations)) in entities.iter().enumerate() {
        for place in destinations.iter().filter_map(|to| places.get(to.as_str())) {
            sources[*place].push(index);
            missing[index] += 1;
        }
    }
    let mut free: VecDeque<usize> = (0..entities.len()).filter(|at| missing[*at] == 0).collect();
    let mut is_done = vec![false; entities.len()];
    let mut next_split = 0;
    let mut turns = Vec::new();
    while turns.len() < entities.len() {
        let (index, is_split) = match free.pop_front() {
            Some(index) => (index, false),
            None => {
                while is_done[next_split] {
                    next_split += 1;
                }
                (in_circle(next_split, entities, &places, &is_done), true)
            }
        };
        if std::mem::replace(&mut is_done[index], true) {
            continue;
        }
        turns.push(Turn { index, is_split });
        for source in &sources[index] {
            missing[*source] -= 1;
            if missing[*source] == 0 {
                free.push_back(*source);
            }
        }
    }
    turns
}

/// One of the circle that is come to from here. Whoever is not done waits for somebody who is not.
fn in_circle(
    from: usize,
    entities: &[(String, Vec<String>)],
    places: &BTreeMap<&str, usize>,
    is_done: &[bool],
) -> usize {
    let (mut at, mut seen) = (from, BTreeSet::new());
    while seen.insert(at) {
        let destinations = entities[at].1.iter().filter_map(|to| places.get(to.as_str()));
        at = destinations.copied().find(|place| !is_done[*place]).unwrap_or(at);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(entities: &[(&str, &[&str])]) -> Vec<String> {
        let owned: Vec<(String, Vec<String>)> = entities
            .iter()
            .map(|(name, to)| (name.to_string(), to.iter().map(|to| to.to_string()).collect()))
            .collect();
        let shown =
            |turn: Turn| format!("{}{}", owned[turn.index].0, if turn.is_split { "!" } else { "" });
        creation(&owned).into_iter().map(shown).collect()
    }

    #[test]
    fn fwd_2_a_destination_comes_before_what_forwards_to_it() {
        for (entities, expected) in [
            (&[("a", &["b"] as &[&str]), ("b", &["c"]), ("c", &[])] as &[(&str, &[&str])], "c b a"),
            (&[("a", &["elsewhere"]), ("b", &[])], "a b"),
            (&[("a", &["b", "b"]), ("b", &[])], "b a"),
            (&[("a", &["a"])], "a!"),
            (&[("x", &["a"]), ("a", &["b"]), ("b", &["a"])], "a! x b"),
            (&[], ""),
        ] {
            let turns = turns(entities).join(" ");
            assert_eq!(turns, expected, "{entities:?}");
        }
    }
}
