//! Where timers live: one vector, reused through a free list, and circular lists through it.

/// Stands for "no index".
pub(crate) const NONE: u32 = u32::MAX;

/// An armed timer, for cancelling it. A handle whose timer fired or was cancelled is recognised:
/// its generation no longer matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// A timer, in the list of one slot of one dial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer<K> {
    pub due: u64,
    pub key: K,
    /// Neighbours in its circular list; in a free place `next` links the free list.
    prev: u32,
    next: u32,
    /// The dial it is in; the slot follows from `due`. `NONE` in a free place.
    pub dial: u32,
    generation: u32,
}

/// All timers of a wheel.
#[derive(Clone, Debug)]
pub(crate) struct Slab<K> {
    timers: Vec<Timer<K>>,
    free: u32,
    live: usize,
}

impl<K: Copy> Slab<K> {
    pub fn new() -> Slab<K> {
        Slab { timers: Vec::new(), free: NONE, live: 0 }
    }

    pub fn len(&self) -> usize {
        self.live
    }

    /// The index behind a handle, if its timer is still armed.
    pub fn find(&self, handle: Handle) -> Option<u32> {
        let timer = self.timers.get(handle.index as usize)?;
        (timer.generation == handle.generation && timer.dial != NONE).then_some(handle.index)
    }

    pub fn get(&self, index: u32) -> &Timer<K> {
        &self.timers[index as usize]
    }

    pub fn set_dial(&mut self, index: u32, dial: u32) {
        self.timers[index as usize].dial = dial;
    }

    pub fn next(&self, index: u32) -> u32 {
        self.timers[index as usize].next
    }

    /// A new timer, in a list of its own.
    pub fn insert(&mut self, key: K, due: u64, dial: u32) -> (u32, Handle) {
        self.live += 1;
        if self.free != NONE {
            let index = self.free;
            let timer = &mut self.timers[index as usize];
            self.free = timer.next;
            let generation = timer.generation;
            *timer = Timer { due, key, prev: index, next: index, dial, generation };
            return (index, Handle { index, generation });
        }
        // 2^32 timers of some 50 bytes would be 200 GiB: memory ends first.
        let index = u32::try_from(self.timers.len()).expect("fewer than 2^32 timers");
        self.timers.push(Timer { due, key, prev: index, next: index, dial, generation: 0 });
        (index, Handle { index, generation: 0 })
    }

    /// Frees the place of a timer that was unlinked.
    pub fn remove(&mut self, index: u32) -> Timer<K> {
        self.live -= 1;
        let free = self.free;
        let timer = &mut self.timers[index as usize];
        let removed = *timer;
        timer.dial = NONE;
        timer.generation = timer.generation.wrapping_add(1);
        timer.next = free;
        self.free = index;
        removed
    }

    /// Appends a timer to the list that starts with `head`, or starts one. Returns the list's head.
    pub fn append(&mut self, head: u32, index: u32) -> u32 {
        if head == NONE {
            let timer = &mut self.timers[index as usize];
            (timer.prev, timer.next) = (index, index);
            return index;
        }
        let tail = self.timers[head as usize].prev;
        self.timers[tail as usize].next = index;
        self.timers[head as usize].prev = index;
        let timer = &mut self.timers[index as usize];
        (timer.prev, timer.next) = (tail, head);
        head
    }

    /// Takes a timer out of the list that starts with `head`. Returns the list's head.
    pub fn unlink(&mut self, head: u32, index: u32) -> u32 {
        let Timer { prev, next, .. } = self.timers[index as usize];
        if next == index {
            return NONE;
        }
        self.timers[prev as usize].next = next;
        self.timers[next as usize].prev = prev;
        if head == index { next } else { head }
    }
}
