//! One digit of time: 64 slots, each empty, a list of timers, or a finer dial.

use crate::slab::NONE;

/// Bits per digit.
const DIGIT_BITS: u32 = 6;
/// Slots of a dial.
const SLOTS: usize = 1 << DIGIT_BITS;
/// The level of the root: eleven digits of six bits cover a `u64`.
pub(crate) const ROOT_LEVEL: u8 = 10;
/// The root is the first dial made and is never given back.
pub(crate) const ROOT: u32 = 0;

/// The digit of an instant at a level; level 0 is single units of time.
pub(crate) fn digit(due: u64, level: u8) -> usize {
    (due >> (DIGIT_BITS * level as u32)) as usize & (SLOTS - 1)
}

/// A place in the tree: a slot of a dial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub dial: u32,
    pub digit: usize,
}

/// See the file's head. 536 bytes, in a slab of its own.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    /// Slots that hold anything.
    occupied: u64,
    /// Of those, slots that hold a finer dial.
    unfolded: u64,
    pub level: u8,
    /// The slot of the coarser dial that this one stands in.
    pub parent: u32,
    parent_digit: u8,
    /// A list's head, or a finer dial.
    heads: [u32; SLOTS],
    /// Lengths of the lists.
    counts: [u32; SLOTS],
}

impl Dial {
    fn new(level: u8, parent: Slot) -> Dial {
        Dial {
            occupied: 0,
            unfolded: 0,
            level,
            parent: parent.dial,
            parent_digit: parent.digit as u8,
            heads: [NONE; SLOTS],
            counts: [0; SLOTS],
        }
    }

    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The first slot that holds anything.
    pub fn first(&self) -> Option<usize> {
        (self.occupied != 0).then(|| self.occupied.trailing_zeros() as usize)
    }

    /// The finer dial in a slot.
    pub fn finer(&self, digit: usize) -> Option<u32> {
        (self.unfolded & 1 << digit != 0).then(|| self.heads[digit])
    }

    /// The first timer of a slot's list.
    pub fn head(&self, digit: usize) -> u32 {
        self.heads[digit]
    }

    /// The length of a slot's list.
    pub fn count(&self, digit: usize) -> u32 {
        self.counts[digit]
    }

    /// A list grew by one.
    pub fn grown(&mut self, digit: usize, head: u32) -> u32 {
        self.occupied |= 1 << digit;
        self.heads[digit] = head;
        self.counts[digit] += 1;
        self.counts[digit]
    }

    /// A list shrank by one; `NONE` if it is now empty.
    pub fn shrunk(&mut self, digit: usize, head: u32) {
        self.heads[digit] = head;
        self.counts[digit] -= 1;
        if head == NONE {
            self.occupied &= !(1 << digit);
        }
    }
}

/// All dials of a wheel, reused through a free list (`parent` links it).
#[derive(Clone, Debug)]
pub(crate) struct Dials {
    dials: Vec<Dial>,
    free: u32,
}

impl Dials {
    /// The root alone.
    pub fn new() -> Dials {
        let root = Dial::new(ROOT_LEVEL, Slot { dial: NONE, digit: 0 });
        Dials { dials: vec![root], free: NONE }
    }

    pub fn get(&self, dial: u32) -> &Dial {
        &self.dials[dial as usize]
    }

    pub fn get_mut(&mut self, dial: u32) -> &mut Dial {
        &mut self.dials[dial as usize]
    }

    /// How many there are, free ones included.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.dials.len()
    }

    /// The slot whose list a timer due then is in or would be appended to.
    pub fn slot(&self, due: u64) -> Slot {
        let mut dial = ROOT;
        loop {
            let at = self.get(dial);
            let digit = digit(due, at.level);
            match at.finer(digit) {
                Some(finer) => dial = finer,
                None => return Slot { dial, digit },
            }
        }
    }

    /// Puts an empty finer dial where a list was; the caller holds the list's timers.
    pub fn unfold(&mut self, slot: Slot) -> u32 {
        let level = self.get(slot.dial).level - 1;
        let made = Dial::new(level, slot);
        let finer = match self.free {
            NONE => {
                self.dials.push(made);
                self.dials.len() as u32 - 1
            }
            free => {
                self.free = self.get(free).parent;
                self.dials[free as usize] = made;
                free
            }
        };
        let coarser = self.get_mut(slot.dial);
        coarser.unfolded |= 1 << slot.digit;
        coarser.heads[slot.digit] = finer;
        coarser.counts[slot.digit] = 0;
        finer
    }

    /// Gives back a dial that became empty, and those above it that became empty with it.
    pub fn fold_empty(&mut self, mut dial: u32) {
        while dial != ROOT && self.get(dial).is_empty() {
            let Dial { parent, parent_digit, .. } = *self.get(dial);
            self.get_mut(dial).parent = self.free;
            self.free = dial;
            let coarser = self.get_mut(parent);
            coarser.occupied &= !(1 << parent_digit);
            coarser.unfolded &= !(1 << parent_digit);
            coarser.heads[parent_digit as usize] = NONE;
            dial = parent;
        }
    }
}
