//! What does a timer cost, from 10^4 to 10^7 of them, next to a binary heap and a B-tree?
//!
//! Estimate, made before measuring: below the cache sizes all three are near 100 ns for arming and
//! cancelling. Beyond, each access to a random timer is one cache miss of some 80 ns: the wheel
//! needs three or four (its list's neighbours), whatever the count, so about 300 ns; the B-tree one
//! per level below the cached ones, each way, so 1 µs at 10^7; the heap arms cheaply, but cannot
//! cancel: it marks, and pays when the mark comes up or when it is rid of all marks at once.
//! Firing: wheel 100 ns, B-tree 200 ns (it pops at its left edge), heap log2(n) misses, 1 µs at 10^7.
//!
//! Measured on two shared cores, ns per pair of operations:
//!
//! | timers | cancel+arm: wheel | heap | B-tree | fire+arm: wheel | heap | B-tree |
//! |---|---|---|---|---|---|---|
//! | 10^4 | 52 | 35 | 165 | 141 | 78 | 108 |
//! | 10^5 | 64 | 45 | 302 | 140 | 154 | 150 |
//! | 10^6 | 331 | 194 | 817 | 261 | 846 | 364 |
//! | 10^7 | 419 | 267 | 2253 | 320 | 3499 | 981 |
//!
//! So the wheel is the only one that stays below half a microsecond at everything. The heap's cheap
//! cancelling is borrowed: it keeps up to as many dead timers as live ones, and its clean-up stops
//! everything for as long as it takes to look at them all.
//!
//! `cargo bench -p mayfly-benches --bench wheel`; under `cargo test` it runs once, small.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use timer_wheel::{Fired, Handle, Wheel};

/// Locks last up to 5 minutes (LOCK-4).
const SPAN_MS: u64 = 300_000;
const START_MS: u64 = 1_700_000_000_000;

/// What is compared. Keys are the order of arming, so all three fire in the same order.
trait Timers: Default {
    type Handle: Copy;
    fn arm(&mut self, key: u64, due: u64) -> Self::Handle;
    fn cancel(&mut self, handle: Self::Handle);
    fn next_deadline(&mut self) -> Option<u64>;
    fn advance(&mut self, now: u64, count_max: usize, fired: &mut Vec<Fired<u64>>);
}

impl Timers for Wheel<u64> {
    type Handle = Handle;

    fn arm(&mut self, key: u64, due: u64) -> Handle {
        Wheel::arm(self, key, due)
    }

    fn cancel(&mut self, handle: Handle) {
        Wheel::cancel(self, handle);
    }

    fn next_deadline(&mut self) -> Option<u64> {
        Wheel::next_deadline(self)
    }

    fn advance(&mut self, now: u64, count_max: usize, fired: &mut Vec<Fired<u64>>) {
        Wheel::advance(self, now, count_max, fired);
    }
}

type Tree = BTreeMap<(u64, u64), ()>;

impl Timers for Tree {
    type Handle = (u64, u64);

    fn arm(&mut self, key: u64, due: u64) -> (u64, u64) {
        self.insert((due, key), ());
        (due, key)
    }

    fn cancel(&mut self, handle: (u64, u64)) {
        self.remove(&handle);
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.first_key_value().map(|((due, _), ())| *due)
    }

    fn advance(&mut self, now: u64, count_max: usize, fired: &mut Vec<Fired<u64>>) {
        for _ in 0..count_max {
            match self.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let (due, key) = first.remove_entry().0;
                    fired.push(Fired { due, key });
                }
                _ => break,
            }
        }
    }
}

/// A heap cannot take out of its middle: a cancelled timer stays, marked, until it comes up or until
/// marks are more than half of all.
#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// By place: the key armed there, if it is still armed.
    live: Vec<Option<u64>>,
    free: Vec<u32>,
}

impl Heap {
    fn is_live(&self, key: u64, place: u32) -> bool {
        self.live[place as usize] == Some(key)
    }

    fn skip_dead(&mut self) {
        while let Some(Reverse((_, key, place))) = self.heap.peek() {
            if self.is_live(*key, *place) {
                break;
            }
            self.heap.pop();
        }
    }
}

impl Timers for Heap {
    type Handle = (u64, u32);

    fn arm(&mut self, key: u64, due: u64) -> (u64, u32) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.live.push(None);
            self.live.len() as u32 - 1
        });
        self.live[place as usize] = Some(key);
        self.heap.push(Reverse((due, key, place)));
        (key, place)
    }

    fn cancel(&mut self, (key, place): (u64, u32)) {
        if self.is_live(key, place) {
            self.live[place as usize] = None;
            self.free.push(place);
            if self.heap.len() > 2 * (self.live.len() - self.free.len()) {
                let live = &self.live;
                self.heap.retain(|Reverse((_, key, place))| live[*place as usize] == Some(*key));
            }
        }
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.skip_dead();
        self.heap.peek().map(|Reverse((due, _, _))| *due)
    }

    fn advance(&mut self, now: u64, count_max: usize, fired: &mut Vec<Fired<u64>>) {
        let end = fired.len() + count_max;
        while fired.len() < end && self.next_deadline().is_some_and(|due| due <= now) {
            if let Some(Reverse((due, key, place))) = self.heap.pop() {
                self.live[place as usize] = None;
                self.free.push(place);
                fired.push(Fired { due, key });
            }
        }
    }
}

/// xorshift64: the same numbers for all three.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A structure with `count` timers, and what the next operation needs.
struct Bench<T: Timers> {
    timers: T,
    handles: Vec<T::Handle>,
    random: Random,
    now: u64,
    armed: u64,
    fired: Vec<Fired<u64>>,
    digest: u64,
}

impl<T: Timers> Bench<T> {
    fn new(count: usize) -> Bench<T> {
        let mut bench = Bench {
            timers: T::default(),
            handles: Vec::with_capacity(count),
            random: Random(0x9E37_79B9_7F4A_7C15),
            now: START_MS,
            armed: 0,
            fired: Vec::new(),
            digest: 0,
        };
        for _ in 0..count {
            let handle = bench.arm();
            bench.handles.push(handle);
        }
        bench
    }

    fn arm(&mut self) -> T::Handle {
        self.armed += 1;
        let due = self.now + 1 + self.random.below(SPAN_MS);
        self.timers.arm(self.armed, due)
    }

    /// A lock's usual life: armed, cancelled long before its time. The victim is random, so nearly
    /// every access is a miss once the timers exceed the caches.
    fn cancel_and_arm(&mut self) {
        let victim = self.random.below(self.handles.len() as u64) as usize;
        self.timers.cancel(self.handles[victim]);
        self.handles[victim] = self.arm();
    }

    /// Time goes to the next deadline; what is due fires and is armed anew. Returns how many fired.
    fn fire_and_arm(&mut self) -> usize {
        self.now = self.timers.next_deadline().unwrap_or(self.now);
        self.fired.clear();
        self.timers.advance(self.now, 1024, &mut self.fired);
        for index in 0..self.fired.len() {
            let Fired { due, key } = self.fired[index];
            self.digest = (self.digest.rotate_left(5) ^ due ^ key).wrapping_mul(0x100_0000_01B3);
            self.arm();
        }
        self.fired.len()
    }
}

/// What fires, and when, after a little of everything.
fn digest<T: Timers>(count: usize) -> u64 {
    let mut bench = Bench::<T>::new(count);
    for _ in 0..count {
        bench.cancel_and_arm();
        bench.fire_and_arm();
    }
    bench.digest
}

fn measure<T: Timers>(criterion: &mut Criterion, name: &str, count: usize) {
    let mut group = criterion.benchmark_group(format!("wheel/{count}"));
    group.throughput(Throughput::Elements(1));
    let mut bench = Bench::<T>::new(count);
    group.bench_function(BenchmarkId::new("cancel+arm", name), |b| {
        b.iter(|| bench.cancel_and_arm());
    });
    // Handles are of no use once timers fire: from here on only firing.
    group.bench_function(BenchmarkId::new("fire+arm", name), |b| {
        b.iter_custom(|iterations| {
            let mut fired = 0;
            let start = std::time::Instant::now();
            while fired < iterations {
                fired += bench.fire_and_arm() as u64;
            }
            // Several timers may share a millisecond: count what fired, not how often it was asked.
            start.elapsed().mul_f64(iterations as f64 / fired as f64)
        });
    });
    // An idle group: its driver asks after every batch of effects.
    group.bench_function(BenchmarkId::new("next_deadline", name), |b| {
        b.iter(|| black_box(bench.timers.next_deadline()));
    });
    group.finish();
}

fn main() {
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let sizes: &[usize] = match measuring {
        true => &[10_000, 100_000, 1_000_000, 10_000_000],
        false => &[1_000],
    };
    let digests = [digest::<Wheel<u64>>(5_000), digest::<Heap>(5_000), digest::<Tree>(5_000)];
    assert_eq!(digests, [digests[0]; 3], "all three fire the same timers in the same order");
    println!("digest {:016x}", digests[0]);

    let mut criterion = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2))
        .sample_size(10)
        .configure_from_args();
    for &count in sizes {
        measure::<Wheel<u64>>(&mut criterion, "wheel", count);
        measure::<Heap>(&mut criterion, "heap", count);
        measure::<Tree>(&mut criterion, "btree", count);
    }
    criterion.final_summary();
}
