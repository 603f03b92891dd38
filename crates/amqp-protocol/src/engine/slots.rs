//! Places for sessions and links. A place is used again, an id never is: a verdict that comes late for
//! a link that is gone meets nobody else's.

/// Where, and the how-manieth there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot {
    index: u32,
    epoch: u32,
}

#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, value: T) -> Slot {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let (epoch, place) = &mut self.places[index as usize];
        *epoch = epoch.wrapping_add(1);
        *place = Some(value);
        Slot { index, epoch: *epoch }
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        let (epoch, place) = self.places.get(slot.index as usize)?;
        place.as_ref().filter(|_| *epoch == slot.epoch)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let (epoch, place) = self.places.get_mut(slot.index as usize)?;
        place.as_mut().filter(|_| *epoch == slot.epoch)
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        self.get(slot)?;
        self.free.push(slot.index);
        self.places[slot.index as usize].1.take()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_never_used_again() {
        let mut slots = Slots::default();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!((slots.get(first), slots.get(second)), (None, Some(&'b')));
        assert_eq!((slots.remove(first), slots.len()), (None, 1));
    }
}
