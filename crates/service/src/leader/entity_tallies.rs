//! What was done in entities by entries that this node proposed, for metrics: so many entities by
//! themselves, the rest together. Nothing that was counted here is ever taken back.

use std::collections::{BTreeMap, BTreeSet};

use domain::{EntityId, GroupId, Tally};
use parking_lot::Mutex;

use crate::exchange::{EntityDepth, EntitySample, EntitySamples, GroupDepth};

/// The node's. First come, first kept: an entity has its own for as long as it is known here.
pub(crate) struct EntityTallies {
    max: usize,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    own: BTreeMap<EntityId, Own>,
    /// Of those for which there was no place.
    others: Tally,
    /// Of those that had a place and are known here no more.
    gone: Tally,
}

struct Own {
    group: GroupId,
    tally: Tally,
}

impl Own {
    fn of(group: GroupId) -> Own {
        Own { group, tally: Tally::default() }
    }
}

impl EntityTallies {
    /// `max`: most entities by themselves.
    pub fn new(max: usize) -> EntityTallies {
        EntityTallies { max, books: Mutex::default() }
    }

    pub fn add(&self, group: GroupId, tallies: &[(EntityId, Tally)]) {
        let mut books = self.books.lock();
        for (entity, tally) in tallies {
            match books.place(*entity, group, self.max) {
                Some(own) => own.tally.add(tally),
                None => books.others.add(tally),
            }
        }
    }

    /// Whether an entity of a group led here has a place of its own, or is given one.
    pub fn admits(&self, entity: EntityId, group: GroupId) -> bool {
        self.books.lock().place(entity, group, self.max).is_some()
    }

    /// What is told of entities. `depths`: of the groups that are led here. `name`: of an entity of a group led
    /// elsewhere, if it is known here still.
    pub fn sample(
        &self,
        depths: &[GroupDepth],
        name: impl Fn(GroupId, EntityId) -> Option<String>,
    ) -> EntitySamples {
        let led: BTreeMap<EntityId, &EntityDepth> =
            depths.iter().flat_map(|group| &group.own).map(|(id, own)| (*id, own)).collect();
        let known: Vec<(EntityId, GroupId)> =
            self.books.lock().own.iter().map(|(entity, own)| (*entity, own.group)).collect();
        // Rows are not read while whoever applies entries waits.
        let elsewhere = known.iter().filter(|(entity, _)| !led.contains_key(entity));
        let mut names = BTreeMap::new();
        let mut gone = BTreeSet::new();
        for (entity, group) in elsewhere {
            match name(*group, *entity) {
                Some(name) => drop(names.insert(*entity, name)),
                None => drop(gone.insert(*entity)),
            }
        }
        let mut books = self.books.lock();
        gone.into_iter().for_each(|entity| books.part(entity));
        let sample = |(entity, own): (&EntityId, &Own)| {
            let depth = led.get(entity).map(|depth| (*depth).clone());
            let name = depth.as_ref().map(|depth| depth.name.clone());
            let name = name.or_else(|| names.remove(entity))?;
            Some(EntitySample { name, tally: own.tally.clone(), depth })
        };
        let own: Vec<EntitySample> = books.own.iter().filter_map(sample).collect();
        let mut total = books.others.clone();
        total.add(&books.gone);
        books.own.values().for_each(|own| total.add(&own.tally));
        let mut others = EntityDepth::default();
        depths.iter().for_each(|group| others.add(&group.others));
        EntitySamples {
            own,
            others: (books.others.clone(), others),
            gone: books.gone.clone(),
            total,
        }
    }
}

impl Books {
    fn place(&mut self, entity: EntityId, group: GroupId, max: usize) -> Option<&mut Own> {
        if !self.own.contains_key(&entity) && self.own.len() >= max {
            return None;
        }
        let own = self.own.entry(entity).or_insert_with(|| Own::of(group));
        own.group = group;
        Some(own)
    }

    fn part(&mut self, entity: EntityId) {
        if let Some(own) = self.own.remove(&entity) {
            self.gone.add(&own.tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Deed;

    use super::*;

    fn sent(count: usize) -> Tally {
        let mut tally = Tally::default();
        (0..count).for_each(|_| tally.accepted(1));
        tally
    }

    #[test]
    fn the_first_have_their_own_and_no_sum_falls_when_one_goes() {
        let tallies = EntityTallies::new(2);
        let group = GroupId(1);
        let add = |entity, count| tallies.add(group, &[(EntityId(entity), sent(count))]);
        (1..=4).for_each(|entity| add(entity, 10));
        add(1, 5);
        let sample = |known: &[u64]| {
            let known = known.to_vec();
            tallies.sample(&[], move |_, entity| {
                known.contains(&entity.0).then(|| format!("q{}", entity.0))
            })
        };
        let told = |samples: &EntitySamples| {
            let own: Vec<(String, u64)> = samples
                .own
                .iter()
                .map(|sample| (sample.name.clone(), sample.tally.of(Deed::Accepted)))
                .collect();
            let of = |tally: &Tally| tally.of(Deed::Accepted);
            (own, of(&samples.others.0), of(&samples.gone), of(&samples.total))
        };
        let both = vec![("q1".to_owned(), 15), ("q2".to_owned(), 10)];
        assert_eq!(told(&sample(&[1, 2, 3, 4])), (both, 20, 0, 45));
        let one = vec![("q2".to_owned(), 10)];
        assert_eq!(told(&sample(&[2, 3, 4])), (one, 20, 15, 45), "q1 was deleted");
        add(3, 7);
        let next = vec![("q2".to_owned(), 10), ("q3".to_owned(), 7)];
        assert_eq!(told(&sample(&[2, 3, 4])), (next, 20, 15, 52), "its place is the next one's");
    }
}
