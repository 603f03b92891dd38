//! Whose proofs are refused, by address: who tries by the thousand is told of once in a while, with how
//! often he tried, and fills no disk.

use std::collections::HashMap;
use std::net::IpAddr;

use auth::network;

use crate::record::Record;

/// Refusals of one address are told so far apart.
const EVERY_MS: u64 = 10_000;
/// Addresses that are told apart at a time; those of more are counted together.
const ADDRESSES_MAX: usize = 1_024;
/// Over all addresses so many are told at once, and then one each so many milliseconds: a hundred
/// megabytes a day at most, whoever tries.
const TOLD_AT_ONCE_MAX: u64 = 64;
const TOLD_EVERY_MS: u64 = 200;

/// Counts refusals. Times are the caller's milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    addresses: HashMap<Option<IpAddr>, Stranger>,
    others: Stranger,
    /// When all that was told is as if it had been told at its pace.
    paid_ms: u64,
}

#[derive(Debug, Default)]
struct Stranger {
    /// Not told of before.
    next_ms: u64,
    /// The newest that is untold, with the number of all that are.
    untold: Option<Record>,
}

impl Stranger {
    fn add(&mut self, record: Record) {
        let before = self.untold.as_ref().map_or(0, |untold| untold.count);
        let count = before.saturating_add(record.count);
        self.untold = Some(Record { count, ..record });
    }
}

impl Strangers {
    /// Takes the record of a refusal; `Some`: what is to be told at once.
    pub fn add(&mut self, record: Record, now_ms: u64) -> Option<Record> {
        let address = record.caller.as_ref().and_then(|caller| caller.address);
        let network = address.map(|address| network(address.ip()));
        let is_known = self.addresses.contains_key(&network);
        if !is_known && self.addresses.len() >= ADDRESSES_MAX {
            // Whose they were is not one's to say.
            self.others.add(Record { caller: None, named_key: None, ..record });
            return None;
        }
        let stranger = self.addresses.entry(network).or_default();
        stranger.add(record);
        if now_ms < stranger.next_ms || !pay(&mut self.paid_ms, now_ms) {
            return None;
        }
        stranger.next_ms = now_ms.saturating_add(EVERY_MS);
        stranger.untold.take()
    }

    /// What is to be told by now of what was not told at once.
    pub fn due(&mut self, now_ms: u64) -> Vec<Record> {
        let Strangers { addresses, others, paid_ms } = self;
        let mut told = Vec::new();
        let all = addresses.values_mut().chain([others]);
        for stranger in all.filter(|stranger| stranger.next_ms <= now_ms) {
            if stranger.untold.is_some() && pay(paid_ms, now_ms) {
                stranger.next_ms = now_ms.saturating_add(EVERY_MS);
                told.extend(stranger.untold.take());
            }
        }
        addresses.retain(|_, stranger| stranger.next_ms > now_ms || stranger.untold.is_some());
        told
    }

    /// All that was not told, at the end.
    pub fn rest(&mut self) -> Vec<Record> {
        let Strangers { addresses, others, .. } = self;
        let all = addresses.values_mut().chain([others]);
        all.filter_map(|stranger| stranger.untold.take()).collect()
    }
}

/// Whether one more may be told, which then counts.
fn pay(paid_ms: &mut u64, now_ms: u64) -> bool {
    let from = (*paid_ms).max(now_ms);
    let may = from - now_ms <= (TOLD_AT_ONCE_MAX - 1) * TOLD_EVERY_MS;
    if may {
        *paid_ms = from + TOLD_EVERY_MS;
    }
    may
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::action::Action;
    use crate::outcome::Outcome;
    use crate::record::{Caller, Protocol};

    fn refused(from: &str) -> Record {
        let address: SocketAddr = from.parse().expect("an address");
        let (protocol, principal, namespace) = (Protocol::Amqp, None, domain::Namespace::DEFAULT);
        let caller = Some(Caller { protocol, address: Some(address), principal, namespace });
        let outcome = Outcome::Refused("wrong-key".into());
        Record { caller, ..Record::new(Action::ProofRefuse, "", outcome) }
    }

    /// Each row: when, who is refused then, and how many the record stands for that is written at once.
    #[test]
    fn one_address_is_told_of_now_and_then_with_how_often_it_tried() {
        let mut strangers = Strangers::default();
        for (now_ms, from, told) in [
            (0, "10.0.0.1:1", Some(1)),
            (1, "10.0.0.1:2", None),
            (2, "10.0.0.2:1", Some(1)),
            (9_999, "[::ffff:10.0.0.1]:3", None),
            (10_000, "10.0.0.1:4", Some(3)),
            (10_000, "[2001:db8::1]:1", Some(1)),
            (10_001, "[2001:db8::ffff:2]:1", None),
            (10_001, "[2001:db8:0:1::1]:1", Some(1)),
        ] {
            let found = strangers.add(refused(from), now_ms).map(|record| record.count);
            assert_eq!(found, told, "{now_ms} {from}");
        }
        assert!(strangers.due(19_999).is_empty());
        let due: Vec<u64> = strangers.due(20_000).iter().map(|record| record.count).collect();
        assert_eq!(due, [1], "the untold one of 2001:db8::/64");
        assert!(strangers.due(40_000).is_empty() && strangers.addresses.is_empty());
    }

    /// However many addresses somebody has, all are counted, and few are told apart.
    #[test]
    fn a_flood_from_everywhere_is_told_at_a_pace_and_counted_whole() {
        let mut strangers = Strangers::default();
        let mut told = Vec::new();
        for second in 0..60_u64 {
            for address in 0..5_000_u32 {
                let ip = std::net::Ipv4Addr::from_bits(0x0a00_0000 + address);
                told.extend(strangers.add(refused(&format!("{ip}:1")), second * 1_000));
            }
            told.extend(strangers.due(second * 1_000));
            assert!(strangers.addresses.len() <= ADDRESSES_MAX);
        }
        let paced = TOLD_AT_ONCE_MAX + 60 * 1_000 / TOLD_EVERY_MS;
        assert!(told.len() as u64 <= paced, "{}", told.len());
        told.extend(strangers.rest());
        assert_eq!(told.iter().map(|record| record.count).sum::<u64>(), 60 * 5_000);
    }
}
