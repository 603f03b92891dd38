//! An ordered map by number, for numbers that mostly follow each other: they are given out one by one,
//! and a queue's messages go in about the order they came. So values stand in chunks, each at the place
//! that its number gives it: nothing is compared within a chunk, and nothing there moves when others
//! come and go.

use std::collections::{BTreeMap, btree_map};
use std::{iter, slice, vec};

use crate::SequenceNumber;

/// Numbers of a chunk. One far from all others costs a chunk of its own: hence no more.
const NUMBERS: u64 = 16;

#[derive(Clone, Debug)]
pub struct NumberMap<T> {
    /// By number divided by [`NUMBERS`]. None is empty.
    chunks: BTreeMap<u64, Chunk<T>>,
}

#[derive(Clone, Debug)]
pub struct Chunk<T> {
    values: Box<[Option<T>]>,
    count: u32,
}

impl<T> Chunk<T> {
    fn of_one(at: usize, value: T) -> Chunk<T> {
        let mut values: Box<[Option<T>]> = (0..NUMBERS).map(|_| None).collect();
        values[at] = Some(value);
        Chunk { values, count: 1 }
    }
}

/// A number's chunk, and its place there.
fn place(number: SequenceNumber) -> (u64, usize) {
    (number.0 / NUMBERS, (number.0 % NUMBERS) as usize)
}

fn number(chunk: u64, at: usize) -> SequenceNumber {
    SequenceNumber(chunk * NUMBERS + at as u64)
}

impl<T> Default for NumberMap<T> {
    fn default() -> NumberMap<T> {
        NumberMap { chunks: BTreeMap::new() }
    }
}

impl<T> NumberMap<T> {
    pub fn get(&self, number: SequenceNumber) -> Option<&T> {
        let (chunk, at) = place(number);
        self.chunks.get(&chunk)?.values[at].as_ref()
    }

    pub fn insert(&mut self, number: SequenceNumber, value: T) -> Option<T> {
        match self.entry(number) {
            Entry::Vacant(slot) => {
                slot.insert(value);
                None
            }
            Entry::Occupied(mut slot) => Some(std::mem::replace(slot.get_mut(), value)),
        }
    }

    pub fn remove(&mut self, number: SequenceNumber) -> Option<T> {
        match self.entry(number) {
            Entry::Vacant(_) => None,
            Entry::Occupied(slot) => Some(slot.remove()),
        }
    }

    /// Where a number's value stands, or would.
    pub fn entry(&mut self, number: SequenceNumber) -> Entry<'_, T> {
        let (chunk, at) = place(number);
        match self.chunks.entry(chunk) {
            btree_map::Entry::Vacant(chunk) => Entry::Vacant(Vacant::Chunk(chunk, at)),
            btree_map::Entry::Occupied(chunk) => match chunk.get().values[at] {
                None => Entry::Vacant(Vacant::Place(chunk.into_mut(), at)),
                Some(_) => Entry::Occupied(Occupied(chunk, at)),
            },
        }
    }

    /// What stands under `from <= number`, and before `to` if there is one, in ascending order.
    pub fn range(&self, from: SequenceNumber, to: Option<SequenceNumber>) -> Range<'_, T> {
        let chunks = match to {
            Some(to) if from >= to => self.chunks.range(..0),
            Some(to) => self.chunks.range(place(from).0..=place(to).0),
            None => self.chunks.range(place(from).0..),
        };
        Range { chunks, current: None, from, to }
    }

    /// In ascending order.
    pub fn iter(&self) -> Range<'_, T> {
        self.range(SequenceNumber::MIN, None)
    }
}

impl<T> IntoIterator for NumberMap<T> {
    type Item = (SequenceNumber, T);
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { chunks: self.chunks.into_iter(), current: None }
    }
}

pub enum Entry<'a, T> {
    Vacant(Vacant<'a, T>),
    Occupied(Occupied<'a, T>),
}

pub enum Vacant<'a, T> {
    Chunk(btree_map::VacantEntry<'a, u64, Chunk<T>>, usize),
    Place(&'a mut Chunk<T>, usize),
}

impl<T> Vacant<'_, T> {
    pub fn insert(self, value: T) {
        match self {
            Vacant::Chunk(slot, at) => drop(slot.insert(Chunk::of_one(at, value))),
            Vacant::Place(chunk, at) => {
                chunk.values[at] = Some(value);
                chunk.count += 1;
            }
        }
    }
}

pub struct Occupied<'a, T>(btree_map::OccupiedEntry<'a, u64, Chunk<T>>, usize);

impl<T> Occupied<'_, T> {
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().values[self.1].as_mut().expect("it is occupied")
    }

    pub fn remove(mut self) -> T {
        let chunk = self.0.get_mut();
        let value = chunk.values[self.1].take().expect("it is occupied");
        chunk.count -= 1;
        if chunk.count == 0 {
            self.0.remove();
        }
        value
    }
}

/// See [`NumberMap::range`].
pub struct Range<'a, T> {
    chunks: btree_map::Range<'a, u64, Chunk<T>>,
    current: Option<(u64, iter::Enumerate<slice::Iter<'a, Option<T>>>)>,
    from: SequenceNumber,
    to: Option<SequenceNumber>,
}

impl<'a, T> Iterator for Range<'a, T> {
    type Item = (SequenceNumber, &'a T);

    fn next(&mut self) -> Option<(SequenceNumber, &'a T)> {
        loop {
            if let Some((chunk, values)) = &mut self.current {
                for (at, value) in values {
                    let number = number(*chunk, at);
                    if self.to.is_some_and(|to| number >= to) {
                        return None;
                    }
                    if let Some(value) = value
                        && number >= self.from
                    {
                        return Some((number, value));
                    }
                }
            }
            let (chunk, values) = self.chunks.next()?;
            self.current = Some((*chunk, values.values.iter().enumerate()));
        }
    }
}

/// In ascending order.
pub struct IntoIter<T> {
    chunks: btree_map::IntoIter<u64, Chunk<T>>,
    current: Option<(u64, iter::Enumerate<vec::IntoIter<Option<T>>>)>,
}

impl<T> Iterator for IntoIter<T> {
    type Item = (SequenceNumber, T);

    fn next(&mut self) -> Option<(SequenceNumber, T)> {
        loop {
            if let Some((chunk, values)) = &mut self.current {
                for (at, value) in values {
                    if let Some(value) = value {
                        return Some((number(*chunk, at), value));
                    }
                }
            }
            let (chunk, values) = self.chunks.next()?;
            self.current = Some((chunk, values.values.into_vec().into_iter().enumerate()));
        }
    }
}
