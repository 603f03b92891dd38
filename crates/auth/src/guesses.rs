//! Who guesses keys is slowed down, and then not listened to for a while; nobody else is. What counts is a
//! wrong key, by address and key name together, so that no stranger shuts out whoever has the key
//! elsewhere; and by address alone, so that it is of no use to him to try many names.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, RandomState};
use std::hash::{BuildHasher as _, Hasher};
use std::net::IpAddr;

use crate::token::TokenError;

/// Addresses and keys that are remembered: beyond it whoever guessed least is forgotten.
const REMEMBERED_MAX: usize = 8_192;
/// So many are compared when one is to be forgotten.
const COMPARED_MAX: usize = 8;
/// Wrong keys of all names together, for each that one name has.
const NAMES: u64 = 4;
/// The delay grows by this with each wrong key, up to ten times.
const DELAY_STEP_MS: u64 = 500;
const DELAY_MAX_MS: u64 = 10 * DELAY_STEP_MS;
const MINUTE_MS: u64 = 60_000;
/// However many were tried at once, an address is looked at again after so long.
const HELD_MS_MAX: u64 = 10 * MINUTE_MS;

/// Counts wrong keys. Times are the caller's milliseconds.
#[derive(Debug)]
pub struct Guesses {
    /// Wrong keys a minute that one address may send for one key name; 0: as many as it likes.
    per_minute: u64,
    names: RandomState,
    /// Until when what was counted is forgotten, at so many a minute.
    until_ms: HashMap<(IpAddr, Option<u64>), u64>,
}

/// A proof is not even looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Until one more is.
    pub wait_ms: u64,
}

impl Guesses {
    /// So many wrong keys a minute of one address for one key name are looked at, half of them answered
    /// at once; 0: all.
    pub fn new(per_minute: u32) -> Guesses {
        let (names, until_ms) = (RandomState::new(), HashMap::new());
        Guesses { per_minute: per_minute.into(), names, until_ms }
    }

    /// Whether this may be one: a wrong key, and not a mistake that tells nothing of keys.
    pub fn is_one(error: &TokenError) -> bool {
        match error {
            TokenError::UnknownKey
            | TokenError::Signature { .. }
            | TokenError::Login { .. }
            | TokenError::Bearer => true,
            TokenError::NotSas
            | TokenError::Malformed { .. }
            | TokenError::Expired
            | TokenError::Resource { .. }
            // Nobody finds a signature by trying.
            | TokenError::Web(_) => false,
        }
    }

    /// Whether a proof is looked at. `name`: of the key that it says it is made with.
    ///
    /// # Errors
    /// [`Held`]: this address sent too many wrong ones.
    pub fn admit(&self, address: IpAddr, name: Option<&str>, now_ms: u64) -> Result<(), Held> {
        if self.per_minute == 0 {
            return Ok(());
        }
        let waits = self.places(address, name).map(|(place, max)| {
            let until_ms = self.until_ms.get(&place).copied().unwrap_or(0);
            let (left_ms, cost_ms) = (until_ms.saturating_sub(now_ms), self.cost_ms(max));
            // Room for one more.
            (left_ms + cost_ms).saturating_sub(max * cost_ms)
        });
        match waits.into_iter().max() {
            None | Some(0) => Ok(()),
            Some(wait_ms) => Err(Held { wait_ms }),
        }
    }

    /// A proof was wrong: how long its answer is to wait.
    pub fn wrong(&mut self, address: IpAddr, name: Option<&str>, now_ms: u64) -> u64 {
        if self.per_minute == 0 {
            return 0;
        }
        let mut delay_ms = 0;
        for (place, max) in self.places(address, name) {
            self.make_room(place);
            let cost_ms = self.cost_ms(max);
            let until_ms = self.until_ms.entry(place).or_insert(0);
            *until_ms = ((*until_ms).max(now_ms) + cost_ms).min(now_ms + HELD_MS_MAX);
            let count = (*until_ms - now_ms).div_ceil(cost_ms);
            let surplus = count.saturating_sub(max / 2);
            delay_ms = delay_ms.max((surplus * DELAY_STEP_MS).min(DELAY_MAX_MS));
        }
        delay_ms
    }

    /// What a wrong key counts against, and how many of them that takes.
    fn places(&self, address: IpAddr, name: Option<&str>) -> [((IpAddr, Option<u64>), u64); 2] {
        let mut hasher: DefaultHasher = self.names.build_hasher();
        hasher.write(name.unwrap_or_default().as_bytes());
        let network = network(address);
        let named = (network, Some(hasher.finish()));
        [(named, self.per_minute), ((network, None), self.per_minute * NAMES)]
    }

    fn cost_ms(&self, max: u64) -> u64 {
        (MINUTE_MS / max).max(1)
    }

    fn make_room(&mut self, place: (IpAddr, Option<u64>)) {
        if self.until_ms.len() < REMEMBERED_MAX || self.until_ms.contains_key(&place) {
            return;
        }
        let some = self.until_ms.iter().take(COMPARED_MAX);
        let least = some.min_by_key(|(_, until_ms)| **until_ms).map(|(place, _)| *place);
        if let Some(least) = least {
            self.until_ms.remove(&least);
        }
    }
}

/// Of IPv6 whoever has one address has its 2^64 neighbours too; of IPv4 within it the address counts.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (u128::MAX << 64)).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Each row: when, whose wrong key for which name, and how it is answered: after so long, or not looked
    /// at for so long.
    #[test]
    fn wrong_keys_are_answered_later_and_later_and_then_not_looked_at() {
        let mut guesses = Guesses::new(6);
        for (now_ms, address, name, expected) in [
            (0, A, "k", Ok(0)),
            (0, A, "k", Ok(0)),
            (0, A, "k", Ok(0)),
            (0, A, "k", Ok(500)),
            (0, A, "k", Ok(1_000)),
            (0, A, "k", Ok(1_500)),
            (0, A, "k", Err(10_000)),
            (0, "::ffff:10.0.0.1", "k", Err(10_000)),
            // Another name, and the same from elsewhere.
            (0, A, "other", Ok(0)),
            (0, B, "k", Ok(0)),
            (4_000, A, "k", Err(6_000)),
            (10_000, A, "k", Ok(1_500)),
            (10_000, A, "k", Err(10_000)),
            (200_000, A, "k", Ok(0)),
            // One address of a network is like another.
            (0, "2001:db8::1", "k", Ok(0)),
            (0, "2001:db8::2", "k", Ok(0)),
            (0, "2001:db8::3", "k", Ok(0)),
            (0, "2001:db8::4", "k", Ok(500)),
            (0, "2001:db8:0:1::1", "k", Ok(0)),
        ] {
            let (address, name) = (ip(address), Some(name));
            let found = guesses.admit(address, name, now_ms).map_err(|held| held.wait_ms);
            let found = found.map(|()| guesses.wrong(address, name, now_ms));
            assert_eq!(found, expected, "{now_ms} {address} {name:?}");
        }
    }

    /// Those that come at once are all looked at, and counted one by one.
    #[test]
    fn nobody_is_held_for_ever() {
        let mut guesses = Guesses::new(6);
        for _ in 0..100_000 {
            guesses.wrong(ip(A), Some("k"), 0);
        }
        assert!(guesses.admit(ip(A), Some("k"), HELD_MS_MAX - MINUTE_MS).is_err());
        assert_eq!(guesses.admit(ip(A), Some("k"), HELD_MS_MAX), Ok(()));
    }

    #[test]
    fn many_names_of_one_address_are_no_way_around_it() {
        let mut guesses = Guesses::new(6);
        for name in 0..24 {
            let name = name.to_string();
            assert_eq!(guesses.admit(ip(A), Some(&name), 0), Ok(()), "{name}");
            guesses.wrong(ip(A), Some(&name), 0);
        }
        assert!(guesses.admit(ip(A), Some("one more"), 0).is_err());
        assert!(guesses.admit(ip(A), None, 0).is_err());
        assert_eq!(guesses.admit(ip(B), Some("one more"), 0), Ok(()));
    }

    #[test]
    fn so_many_are_remembered_and_who_guessed_most_is_not_forgotten() {
        let mut guesses = Guesses::new(6);
        for _ in 0..6 {
            guesses.wrong(ip(A), Some("k"), 0);
        }
        for number in 0..3 * REMEMBERED_MAX as u32 {
            let address = std::net::Ipv4Addr::from_bits(0x0b00_0000 + number);
            guesses.wrong(address.into(), Some("k"), 0);
        }
        assert!(guesses.until_ms.len() <= REMEMBERED_MAX);
        assert!(guesses.admit(ip(A), Some("k"), 0).is_err());
    }

    #[test]
    fn without_a_limit_all_are_looked_at() {
        let mut guesses = Guesses::new(0);
        for _ in 0..1_000 {
            assert_eq!(guesses.admit(ip(A), None, 0), Ok(()));
            assert_eq!(guesses.wrong(ip(A), None, 0), 0);
        }
    }
}
