//! The ledgers of several workers as one: each tells its own in parts, and what they know is laid together.

use std::sync::MutexGuard;

use super::{Arrivals, Ledger, Sent, lock};
use crate::api::ledger_part::Part;
use crate::api::numbers_part::Set;
use crate::api::{ArrivalsPart, LedgerPart, NumbersPart, SentPart};
use crate::number_set::{Coded, NumberSet};

/// Of one part, so that it fits into what a stream carries.
const BYTES_MAX: usize = 1 << 20;

impl Ledger {
    /// All that is known here, as [`Merged::take`] wants it; producers and places of which nothing is known are left
    /// out.
    pub fn parts(&self) -> impl Iterator<Item = LedgerPart> {
        let sent =
            (0..).zip(&self.sent).flat_map(|(producer, sent)| sent_parts(producer, &lock(sent)));
        let arrivals = (0..).zip(&self.places).flat_map(|(place, (_, arrivals))| {
            let each = (0..).zip(arrivals);
            each.flat_map(move |(producer, of)| arrivals_parts(place, producer, &lock(of)))
        });
        sent.chain(arrivals).map(|part| LedgerPart { part: Some(part), is_last: false })
    }
}

fn sent_parts(producer: u32, sent: &Sent) -> Vec<Part> {
    if sent.handed == 0 && sent.unsent == 0 {
        return Vec::new();
    }
    let mut parts =
        vec![Part::Sent(SentPart { producer, handed: sent.handed, unsent: sent.unsent })];
    parts.extend(numbers(Set::Acknowledged, &sent.acknowledged));
    parts.extend(numbers(Set::Refused, &sent.refused));
    parts.extend(numbers(Set::Cancelled, &sent.cancelled));
    parts.extend(numbers(Set::RolledBack, &sent.rolled_back));
    parts
}

fn arrivals_parts(place: u32, producer: u32, of: &Arrivals) -> Vec<Part> {
    if of.deliveries == 0 && of.dead.len() == 0 {
        return Vec::new();
    }
    let mut parts = vec![Part::Arrivals(ArrivalsPart {
        place,
        producer,
        deliveries: of.deliveries,
        redelivered: of.redelivered,
        doubled: of.doubled,
        out_of_order: of.out_of_order,
        late: of.late,
    })];
    parts.extend(numbers(Set::Seen, &of.seen));
    parts.extend(numbers(Set::Finished, &of.finished));
    parts.extend(numbers(Set::Dead, &of.dead));
    parts
}

fn numbers(set: Set, of: &NumberSet) -> impl Iterator<Item = Part> {
    of.code(BYTES_MAX).into_iter().map(move |Coded { first_chunk, chunks }| {
        let chunks = chunks.into();
        Part::Numbers(NumbersPart { set: set.into(), first_chunk, chunks })
    })
}

/// Whose numbers come next.
#[derive(Clone, Copy, Debug)]
enum Cursor {
    Sent(usize),
    Arrivals { place: usize, producer: usize },
}

/// What several workers know, as one ledger.
///
/// A message that came to two of them came again: that is told from the sets. Which of the two was first is not, so a
/// copy that came after its message was finished elsewhere, and was itself never finished, counts as delivered again
/// and not as doubled.
#[derive(Debug)]
pub struct Merged {
    ledger: Ledger,
    cursor: Option<Cursor>,
}

impl Merged {
    /// Of nobody yet. `empty`: of the same file, with nothing noted.
    pub fn new(empty: Ledger) -> Merged {
        Merged { ledger: empty, cursor: None }
    }

    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }

    /// Takes the next part of one worker; the parts of one come after those of another.
    ///
    /// # Errors
    /// What does not fit this file: the worker runs another, or is another program.
    pub fn take(&mut self, part: LedgerPart) -> Result<(), &'static str> {
        const UNKNOWN: &str = "it told of a producer or a place that the file does not have";
        let Some(part) = part.part else { return Ok(()) };
        match part {
            Part::Sent(SentPart { producer, handed, unsent }) => {
                let at = producer as usize;
                let mut sent = lock(self.ledger.sent.get(at).ok_or(UNKNOWN)?);
                sent.handed += handed;
                sent.unsent += unsent;
                self.cursor = Some(Cursor::Sent(at));
            }
            Part::Arrivals(part) => {
                let (place, producer) = (part.place as usize, part.producer as usize);
                self.cursor = Some(Cursor::Arrivals { place, producer });
                let mut of = self.arrivals_at(place, producer).ok_or(UNKNOWN)?;
                of.deliveries += part.deliveries;
                of.redelivered += part.redelivered;
                of.doubled += part.doubled;
                of.out_of_order += part.out_of_order;
                of.late += part.late;
            }
            Part::Numbers(numbers) => {
                self.take_numbers(&numbers).ok_or("it told of numbers that are none")?;
            }
        }
        Ok(())
    }

    fn arrivals_at(&self, place: usize, producer: usize) -> Option<MutexGuard<'_, Arrivals>> {
        let (_, arrivals) = self.ledger.places.get(place)?;
        arrivals.get(producer).map(lock)
    }

    fn take_numbers(&mut self, numbers: &NumbersPart) -> Option<()> {
        let coded = Coded { first_chunk: numbers.first_chunk, chunks: numbers.chunks.to_vec() };
        match (self.cursor?, Set::try_from(numbers.set).ok()?) {
            (Cursor::Sent(producer), set) => {
                let mut sent = lock(self.ledger.sent.get(producer)?);
                let own = match set {
                    Set::Acknowledged => &mut sent.acknowledged,
                    Set::Refused => &mut sent.refused,
                    Set::Cancelled => &mut sent.cancelled,
                    Set::RolledBack => &mut sent.rolled_back,
                    Set::Seen | Set::Finished | Set::Dead => return None,
                };
                own.merge(&coded).ok()?;
            }
            (Cursor::Arrivals { place, producer }, set) => {
                let mut of = self.arrivals_at(place, producer)?;
                match set {
                    // Elsewhere it was the first of its message as well.
                    Set::Seen => of.redelivered += of.seen.merge(&coded).ok()?,
                    Set::Finished => {
                        let twice = of.finished.merge(&coded).ok()?;
                        of.doubled += twice;
                        of.redelivered = of.redelivered.saturating_sub(twice);
                    }
                    Set::Dead => drop(of.dead.merge(&coded).ok()?),
                    Set::Acknowledged | Set::Refused | Set::Cancelled | Set::RolledBack => {
                        return None;
                    }
                }
            }
        }
        Some(())
    }
}
