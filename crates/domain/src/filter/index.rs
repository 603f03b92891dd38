//! Many correlation filters at once: a message is looked up, not compared with each (RULE-10).

use std::collections::BTreeMap;

use super::correlation::ConditionKey;
use super::operand::{Operand, OperandView};
use crate::{Correlation, MatchCost, Subject};

/// Correlation filters by id. Filters with conditions on the same properties are one *shape*, and
/// within a shape they are found by a hash of the values, so a match costs one look-up per shape,
/// whatever the number of filters.
#[derive(Clone, Debug)]
pub struct CorrelationIndex<Id> {
    filters: BTreeMap<Id, Correlation>,
    /// Ids in order, by shape and hash.
    shapes: BTreeMap<Vec<ConditionKey>, BTreeMap<u64, Vec<Id>>>,
}

impl<Id: Ord + Clone> Default for CorrelationIndex<Id> {
    fn default() -> CorrelationIndex<Id> {
        CorrelationIndex { filters: BTreeMap::new(), shapes: BTreeMap::new() }
    }
}

impl<Id: Ord + Clone> CorrelationIndex<Id> {
    pub fn len(&self) -> usize {
        self.filters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// A filter under an id that is there already takes its place.
    pub fn insert(&mut self, id: Id, filter: Correlation) {
        self.remove(&id);
        if let Some(hash) = hash_of(&filter) {
            let shape = self.shapes.entry(shape_of(&filter)).or_default();
            let ids = shape.entry(hash).or_default();
            let place = ids.partition_point(|other| *other < id);
            ids.insert(place, id.clone());
        }
        self.filters.insert(id, filter);
    }

    /// Whether there was one.
    pub fn remove(&mut self, id: &Id) -> bool {
        let Some(filter) = self.filters.remove(id) else { return false };
        let (Some(hash), shape) = (hash_of(&filter), shape_of(&filter)) else { return true };
        let Some(hashes) = self.shapes.get_mut(&shape) else { return true };
        if let Some(ids) = hashes.get_mut(&hash) {
            ids.retain(|other| other != id);
            if ids.is_empty() {
                hashes.remove(&hash);
            }
        }
        if hashes.is_empty() {
            self.shapes.remove(&shape);
        }
        true
    }

    /// Ids of all filters that match, in order. Each property is read once, whatever the number of
    /// shapes it is in; what all of it takes is added to `cost`.
    pub fn matches(&self, subject: &dyn Subject, cost: &mut MatchCost) -> Vec<Id> {
        let mut matching = self.candidates(subject, cost);
        matching.retain(|id| self.confirms(id, subject, cost));
        matching
    }

    /// Ids of filters that may match, in order: which of them do is found out one by one
    /// ([`CorrelationIndex::confirms`]).
    pub fn candidates(&self, subject: &dyn Subject, cost: &mut MatchCost) -> Vec<Id> {
        let mut hashes: BTreeMap<&ConditionKey, Option<u64>> = BTreeMap::new();
        let mut found = Vec::new();
        for (shape, of_shape) in &self.shapes {
            cost.operations(shape.len());
            let hash = combined(shape.iter().map(|key| {
                *hashes.entry(key).or_insert_with(|| {
                    let value = key.of(subject);
                    cost.bytes(value.bytes());
                    hash(&value)
                })
            }));
            let ids = hash.and_then(|hash| of_shape.get(&hash));
            found.extend(ids.into_iter().flatten().cloned());
        }
        found.sort_unstable();
        found
    }

    /// Whether a filter matches.
    pub fn confirms(&self, id: &Id, subject: &dyn Subject, cost: &mut MatchCost) -> bool {
        self.filters.get(id).is_some_and(|filter| filter.matches(subject, cost))
    }
}

fn shape_of(filter: &Correlation) -> Vec<ConditionKey> {
    filter.conditions().keys().cloned().collect()
}

fn hash_of(filter: &Correlation) -> Option<u64> {
    combined(filter.conditions().values().map(|value| hash(&Operand::borrowed(value))))
}

/// Of several values, from the hash of each.
fn combined(hashes: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let mut combined = Fnv::new();
    for hash in hashes {
        combined.bytes(&hash?.to_be_bytes());
    }
    Some(combined.0)
}

/// Nothing where a value is missing or null: it equals none. Equal values have equal hashes; the
/// reverse is checked. FNV-1a: no seed, and so alike on every replica.
pub(super) fn hash(value: &Operand<'_>) -> Option<u64> {
    let mut hash = Fnv::new();
    hash.add(&value.view()?);
    Some(hash.0)
}

struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.bytes(&[tag]);
        self.bytes(bytes);
    }

    fn add(&mut self, value: &OperandView<'_>) {
        match value {
            OperandView::Bool(value) => self.tagged(1, &[u8::from(*value)]),
            // Zeros are equal whatever their sign.
            OperandView::Number(number) => {
                self.tagged(2, &(number.to_f64() + 0.0).to_bits().to_be_bytes())
            }
            OperandView::Text(text) => self.tagged(3, text.as_bytes()),
            OperandView::Uuid(bytes) => self.tagged(4, *bytes),
            OperandView::DateTime(_) | OperandView::Offset(_) => {
                self.tagged(5, &value.ticks().unwrap_or_default().to_be_bytes());
            }
            OperandView::Span(ticks) => self.tagged(6, &ticks.to_be_bytes()),
            OperandView::Bytes(bytes) => self.tagged(7, bytes),
        }
    }
}
