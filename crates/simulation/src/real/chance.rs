//! All chance of a process from one seed, where nobody hands it on: hash maps, election timeouts and
//! the runtime's `select!` ask the operating system for theirs. So this program answers in its place.

#![allow(unsafe_code, reason = "the C library's function gives way to one of the same name")]

use std::cell::Cell;
use std::fs::File;
use std::io::Read;

thread_local! {
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From here on this thread meets the same chance for the same seed. To be called before it has met
/// any.
pub fn seed(seed: u64) {
    STATE.set(Some(seed));
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn fill(bytes: &mut [u8]) -> std::io::Result<()> {
    let Some(mut state) = STATE.get() else {
        return File::open("/dev/urandom")?.read_exact(bytes);
    };
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&next(&mut state).to_le_bytes()[..chunk.len()]);
    }
    STATE.set(Some(state));
    Ok(())
}

/// What the C library has under this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller hands over so many bytes to be written, as it would to the C library.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    match fill(bytes) {
        Ok(()) => length as isize,
        Err(_) => -1,
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    /// What hash maps and `rand` draw on a thread.
    fn drawn(seed: Option<u64>) -> (u64, u64) {
        let draw = move || {
            if let Some(seed) = seed {
                super::seed(seed);
            }
            (RandomState::new().hash_one(7), rand::random())
        };
        std::thread::spawn(draw).join().expect("no panic")
    }

    #[test]
    fn equal_seeds_bring_equal_chance_and_no_seed_any() {
        assert_eq!(drawn(Some(1)), drawn(Some(1)));
        let apart = [drawn(Some(1)), drawn(Some(2)), drawn(None), drawn(None)];
        for (at, one) in apart.iter().enumerate() {
            for other in &apart[at + 1..] {
                assert!(one.0 != other.0 && one.1 != other.1, "{apart:?}");
            }
        }
    }
}
