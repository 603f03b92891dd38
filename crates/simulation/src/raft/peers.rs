//! Packets between replicas: late, lost, twice, overtaking one another; and nodes cut off.

use std::collections::BTreeMap;

use super::Envelope;
use crate::random::Random;

/// Odds of a thousand.
#[derive(Clone, Copy)]
pub struct Weather {
    pub lost: u32,
    pub repeated: u32,
    pub late: u32,
}

impl Weather {
    pub const CALM: Weather = Weather { lost: 0, repeated: 0, late: 0 };
    pub const ROUGH: Weather = Weather { lost: 20, repeated: 20, late: 40 };
}

#[derive(Default)]
pub struct Peers {
    packets: BTreeMap<(u64, u64), Envelope>,
    sent: u64,
    step: u64,
}

impl Peers {
    pub fn send(&mut self, envelope: Envelope, weather: Weather, random: &mut Random) {
        if envelope.from == envelope.to {
            self.put(envelope, 0);
        } else if !random.chance(weather.lost) {
            if random.chance(weather.repeated) {
                self.put(envelope.clone(), random.between(1, 60));
            }
            let late = random.chance(weather.late);
            self.put(envelope, if late { random.between(2, 40) } else { random.between(1, 2) });
        }
    }

    /// Everything that arrives in the next step, in order of arrival.
    pub fn receive(&mut self) -> Vec<Envelope> {
        self.step += 1;
        let later = self.packets.split_off(&(self.step + 1, 0));
        std::mem::replace(&mut self.packets, later).into_values().collect()
    }

    fn put(&mut self, envelope: Envelope, steps: u64) {
        self.sent += 1;
        self.packets.insert((self.step + steps, self.sent), envelope);
    }
}
