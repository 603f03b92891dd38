//! Messages in the making: bodies of drawn sizes, stamped, with what a file says of their properties.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use workload::Noise;

use crate::file::{Bodies, Producers, PropertyText};
use crate::ledger::SESSIONS_MAX;
use crate::link::{Draft, Fate, Property};
use crate::stamp::Stamp;
use crate::template::Origin;

/// One producer's messages.
pub struct Drafts {
    spec: Producers,
    noise: Noise,
    random: ChaCha8Rng,
    origin: Origin,
    sessions: HashMap<String, u32>,
    /// The broker's clock at the run's beginning, milliseconds since the Unix epoch.
    epoch_ms: u64,
}

impl Drafts {
    /// `producer`: counted over all kinds, from 0.
    pub fn new(
        spec: Producers,
        noise: Noise,
        seed: u64,
        run: u32,
        producer: u32,
        epoch_ms: u64,
    ) -> Drafts {
        let random = ChaCha8Rng::seed_from_u64(seed ^ (u64::from(producer) << 32));
        let origin = Origin { run, producer, number: 0 };
        Drafts { spec, noise, random, origin, sessions: HashMap::new(), epoch_ms }
    }

    /// The number of the next one.
    pub fn number(&self) -> u64 {
        self.origin.number
    }

    /// What is to become of the next that are handed over together.
    pub fn fate(&mut self) -> Fate {
        let Producers { cancel, roll_back, .. } = &self.spec;
        let (share, fate) = match self.spec.transaction {
            None => (cancel.0, Fate::Cancelled),
            Some(_) => (roll_back.0, Fate::RolledBack),
        };
        let is_so = share > 0.0 && self.random.random::<f64>() < share;
        if is_so { fate } else { Fate::Kept }
    }

    /// The next one, due so long after the run's beginning.
    pub fn next(&mut self, due: Duration, is_measured: bool) -> Draft {
        let (spec, random, origin) = (&self.spec, &mut self.random, self.origin);
        let wait = spec.schedule.as_ref().map(|times| times.draw(random));
        let session_id = spec.session_id.as_ref().map(|template| template.fill(origin, random));
        let session = session_id.as_ref().map_or(0, |name| session(&mut self.sessions, name));
        let ready = due + wait.unwrap_or_default();
        let stamp = Stamp {
            run: origin.run,
            producer: origin.producer as u16,
            number: origin.number,
            ready,
            is_scheduled: wait.is_some(),
            is_measured,
            session,
        };
        let property = |(name, text): (&String, &PropertyText)| {
            let value = match text {
                PropertyText::Flag(flag) => Property::Flag(*flag),
                PropertyText::Long(number) => Property::Long(*number),
                PropertyText::Double(number) => Property::Double(*number),
                PropertyText::Text(template) => Property::Text(template.fill(origin, random)),
            };
            (name.clone(), value)
        };
        let properties = spec.properties.iter().map(property).collect();
        let mut text = |template: &Option<_>| {
            template.as_ref().map(|of: &crate::template::Template| of.fill(origin, random))
        };
        let draft = Draft {
            message_id: text(&spec.message_id),
            session_id,
            subject: text(&spec.subject),
            ttl: spec.ttl.as_ref().map(|times| times.draw(random)),
            scheduled_at_ms: wait
                .map(|_| self.epoch_ms + u64::try_from(ready.as_millis()).unwrap_or(u64::MAX)),
            properties,
            body: body(&spec.body, &self.noise, &stamp, random),
        };
        self.origin.number += 1;
        draft
    }
}

/// Of noise or a text and, at its end, the stamp.
fn body(of: &Bodies, noise: &Noise, stamp: &Stamp, random: &mut ChaCha8Rng) -> Bytes {
    let filling = match of {
        Bodies::Drawn(sizes) => {
            let filling = sizes.draw(random).saturating_sub(Stamp::BYTES);
            // Producers that began at one number would send the same side by side.
            let number =
                (stamp.number as u32).wrapping_add(u32::from(stamp.producer).wrapping_mul(104_729));
            noise.cut(number, filling)
        }
        Bodies::Texts(texts) if texts.len() == 1 => &texts[0],
        Bodies::Texts(texts) => &texts[random.random_range(0..texts.len())],
    };
    let mut body = BytesMut::with_capacity(filling.len() + Stamp::BYTES);
    body.put_slice(filling);
    stamp.write(&mut body);
    body.freeze()
}

fn session(sessions: &mut HashMap<String, u32>, name: &str) -> u32 {
    if let Some(session) = sessions.get(name) {
        return *session;
    }
    let next = sessions.len() as u32 + 1;
    if next > SESSIONS_MAX {
        return 0;
    }
    sessions.insert(name.to_owned(), next);
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::LoadFile;

    fn drafts(more: &str) -> Drafts {
        let text = format!("[[producers]]\nto = \"q\"\n{more}");
        let file = LoadFile::parse(&text, "f", 5, None).expect(&text);
        Drafts::new(file.producers[0].clone(), Noise::new(4096), 1, 5, 2, 1_000_000)
    }

    #[test]
    fn a_message_is_as_the_file_says_and_carries_its_stamp() {
        let mut drafts = drafts(
            "body = \"100..200\"\nttl = \"5s\"\nschedule = \"2s\"\nmessage_id = \"{producer}-{number}\"\n\
             session_id = \"s-{number % 2}\"\nproperties = { n = 5, text = \"{red|red}\" }",
        );
        let made: Vec<Draft> =
            (0..3).map(|i| drafts.next(Duration::from_millis(i), i == 1)).collect();
        assert!(made.iter().all(|draft| (100..=200).contains(&draft.body.len())));
        assert_eq!(made[1].message_id.as_deref(), Some("3-1"));
        assert_eq!(made[1].ttl, Some(Duration::from_secs(5)));
        assert_eq!(made[1].scheduled_at_ms, Some(1_002_001));
        let properties = [("n", Property::Long(5)), ("text", Property::Text("red".to_owned()))];
        assert_eq!(made[1].properties, properties.map(|(name, of)| (name.to_owned(), of)));
        let stamps: Vec<Stamp> =
            made.iter().map(|draft| Stamp::read(&draft.body).expect("a stamp")).collect();
        assert_eq!(stamps.iter().map(|of| of.number).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(stamps.iter().map(|of| of.session).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(stamps[1].ready, Duration::from_millis(2001));
        assert!(stamps[1].is_scheduled && stamps[1].is_measured && !stamps[0].is_measured);
        assert_ne!(made[0].body[..64], made[1].body[..64]);
    }

    #[test]
    fn the_smallest_body_is_a_stamp() {
        let mut drafts = drafts("body = 0");
        assert_eq!(drafts.next(Duration::ZERO, false).body.len(), Stamp::BYTES);
    }

    /// The same file and seed send the same.
    #[test]
    fn what_is_drawn_is_drawn_from_the_seed() {
        let more = "body = \"100..2000\"\nsubject = \"{1..1000000}\"";
        let (mut one, mut other) = (drafts(more), drafts(more));
        for _ in 0..10 {
            let of = |drafts: &mut Drafts| {
                let draft = drafts.next(Duration::ZERO, false);
                (draft.body.len(), draft.subject)
            };
            assert_eq!(of(&mut one), of(&mut other));
        }
    }
}
