//! An ordered map by number, for numbers that mostly follow each other: they are given out one by one,
//! and a queue's messages go in about the order they came. So values stand in chunks, whose numbers are
//! the bits of a word: nothing is compared within a chunk, and one that has come alone takes little.

use std::collections::{BTreeMap, btree_map};
use std::{slice, vec};

use crate::SequenceNumber;

/// Numbers of a chunk. A value that comes or goes moves those after it: hence no more.
const NUMBERS: u64 = SlotBits::BITS as u64;

/// A chunk's places, as bits.
type SlotBits = u16;

#[derive(Clone, Debug)]
pub struct NumberMap<T> {
    /// By number divided by [`NUMBERS`]. None is empty.
    chunks: BTreeMap<u64, Chunk<T>>,
}

/// Values in ascending order, and the places they have.
#[derive(Clone, Debug)]
pub struct Chunk<T> {
    taken: SlotBits,
    values: Vec<T>,
}

impl<T> Chunk<T> {
    fn of_one(at: u32, value: T) -> Chunk<T> {
        Chunk { taken: 1 << at, values: vec![value] }
    }

    fn has(&self, at: u32) -> bool {
        self.taken & (1 << at) != 0
    }

    /// How many values stand before a place.
    fn before(&self, at: u32) -> usize {
        (self.taken & below(at)).count_ones() as usize
    }

    fn get(&self, at: u32) -> Option<&T> {
        self.has(at).then(|| &self.values[self.before(at)])
    }

    fn insert(&mut self, at: u32, value: T) {
        if self.values.len() == self.values.capacity() {
            // The second brings the others along, mostly: room for all of them at once.
            self.values.reserve_exact(NUMBERS as usize - self.values.len());
        }
        self.values.insert(self.before(at), value);
        self.taken |= 1 << at;
    }

    fn remove(&mut self, at: u32) -> T {
        self.taken &= !(1 << at);
        self.values.remove(self.before(at))
    }
}

/// All places before this one.
fn below(at: u32) -> SlotBits {
    (1 << at) - 1
}

/// Takes the first of some places away.
fn take_first(places: &mut SlotBits) -> Option<u32> {
    let at = (*places != 0).then(|| places.trailing_zeros())?;
    *places &= *places - 1;
    Some(at)
}

/// A number's chunk, and its place there.
fn place(number: SequenceNumber) -> (u64, u32) {
    (number.0 / NUMBERS, (number.0 % NUMBERS) as u32)
}

fn number(chunk: u64, at: u32) -> SequenceNumber {
    SequenceNumber(chunk * NUMBERS + u64::from(at))
}

impl<T> Default for NumberMap<T> {
    fn default() -> NumberMap<T> {
        NumberMap { chunks: BTreeMap::new() }
    }
}

impl<T> NumberMap<T> {
    pub fn get(&self, number: SequenceNumber) -> Option<&T> {
        let (chunk, at) = place(number);
        self.chunks.get(&chunk)?.get(at)
    }

    pub fn insert(&mut self, number: SequenceNumber, value: T) -> Option<T> {
        match self.entry(number) {
            NumberEntry::Vacant(slot) => {
                slot.insert(value);
                None
            }
            NumberEntry::Occupied(mut slot) => Some(std::mem::replace(slot.get_mut(), value)),
        }
    }

    pub fn remove(&mut self, number: SequenceNumber) -> Option<T> {
        match self.entry(number) {
            NumberEntry::Vacant(_) => None,
            NumberEntry::Occupied(slot) => Some(slot.remove()),
        }
    }

    /// Where a number's value stands, or would.
    pub fn entry(&mut self, number: SequenceNumber) -> NumberEntry<'_, T> {
        let (chunk, at) = place(number);
        match self.chunks.entry(chunk) {
            btree_map::Entry::Vacant(chunk) => NumberEntry::Vacant(VacantNumber::Chunk(chunk, at)),
            btree_map::Entry::Occupied(chunk) => match chunk.get().has(at) {
                false => NumberEntry::Vacant(VacantNumber::Place(chunk.into_mut(), at)),
                true => NumberEntry::Occupied(OccupiedNumber(chunk, at)),
            },
        }
    }

    /// What stands under `from <= number`, and before `to` if there is one, in ascending order.
    pub fn range(&self, from: SequenceNumber, to: Option<SequenceNumber>) -> NumberRange<'_, T> {
        let chunks = match to {
            Some(to) if from >= to => self.chunks.range(..0),
            Some(to) => self.chunks.range(place(from).0..=place(to).0),
            None => self.chunks.range(place(from).0..),
        };
        NumberRange { chunks, current: None, from, to }
    }

    /// In ascending order.
    pub fn iter(&self) -> NumberRange<'_, T> {
        self.range(SequenceNumber::MIN, None)
    }
}

impl<T> IntoIterator for NumberMap<T> {
    type Item = (SequenceNumber, T);
    type IntoIter = NumberIntoIter<T>;

    fn into_iter(self) -> NumberIntoIter<T> {
        NumberIntoIter { chunks: self.chunks.into_iter(), current: None }
    }
}

pub enum NumberEntry<'a, T> {
    Vacant(VacantNumber<'a, T>),
    Occupied(OccupiedNumber<'a, T>),
}

pub enum VacantNumber<'a, T> {
    Chunk(btree_map::VacantEntry<'a, u64, Chunk<T>>, u32),
    Place(&'a mut Chunk<T>, u32),
}

impl<T> VacantNumber<'_, T> {
    pub fn insert(self, value: T) {
        match self {
            VacantNumber::Chunk(slot, at) => drop(slot.insert(Chunk::of_one(at, value))),
            VacantNumber::Place(chunk, at) => chunk.insert(at, value),
        }
    }
}

pub struct OccupiedNumber<'a, T>(btree_map::OccupiedEntry<'a, u64, Chunk<T>>, u32);

impl<T> OccupiedNumber<'_, T> {
    pub fn get_mut(&mut self) -> &mut T {
        let chunk = self.0.get_mut();
        let before = chunk.before(self.1);
        &mut chunk.values[before]
    }

    pub fn remove(mut self) -> T {
        let value = self.0.get_mut().remove(self.1);
        if self.0.get().taken == 0 {
            self.0.remove();
        }
        value
    }
}

/// See [`NumberMap::range`].
pub struct NumberRange<'a, T> {
    chunks: btree_map::Range<'a, u64, Chunk<T>>,
    current: Option<(u64, SlotBits, slice::Iter<'a, T>)>,
    from: SequenceNumber,
    to: Option<SequenceNumber>,
}

impl<'a, T> Iterator for NumberRange<'a, T> {
    type Item = (SequenceNumber, &'a T);

    fn next(&mut self) -> Option<(SequenceNumber, &'a T)> {
        loop {
            if let Some((chunk, places, values)) = &mut self.current
                && let Some(at) = take_first(places)
            {
                return values.next().map(|value| (number(*chunk, at), value));
            }
            let (&number, chunk) = self.chunks.next()?;
            let (mut places, mut skipped) = (chunk.taken, 0);
            if let (first, at) = place(self.from)
                && first == number
            {
                places &= !below(at);
                skipped = chunk.before(at);
            }
            if let Some((last, at)) = self.to.map(place)
                && last == number
            {
                places &= below(at);
            }
            self.current = Some((number, places, chunk.values[skipped..].iter()));
        }
    }
}

/// In ascending order.
pub struct NumberIntoIter<T> {
    chunks: btree_map::IntoIter<u64, Chunk<T>>,
    current: Option<(u64, SlotBits, vec::IntoIter<T>)>,
}

impl<T> Iterator for NumberIntoIter<T> {
    type Item = (SequenceNumber, T);

    fn next(&mut self) -> Option<(SequenceNumber, T)> {
        loop {
            if let Some((chunk, places, values)) = &mut self.current
                && let Some(at) = take_first(places)
            {
                return values.next().map(|value| (number(*chunk, at), value));
            }
            let (number, chunk) = self.chunks.next()?;
            self.current = Some((number, chunk.taken, chunk.values.into_iter()));
        }
    }
}
