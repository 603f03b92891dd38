//! What a worker counted, on its way to the coordinator's books.

use std::collections::BTreeMap;

use workload::Recorder;

use crate::api::{Histogram, Sample};
use crate::link::Verdict;
use crate::meter::{Books, Counts, Recorders};
use crate::run::own_cpu;
use crate::threshold::Span;

/// Everything up to now, and what was recorded since the last one.
pub(super) fn take(books: &mut Books) -> Sample {
    let slice = books.take_slice();
    let counts = books.counts;
    Sample {
        acknowledged: counts.acknowledged,
        deliveries: counts.deliveries,
        delivered: counts.delivered,
        dead: counts.dead,
        completed: counts.completed,
        errors: books.errors.clone(),
        verdicts: books.verdict_counts().to_vec(),
        cpu_us: own_cpu().as_micros() as u64,
        latencies: histograms(&slice),
    }
}

/// Those of which anything was recorded.
pub(super) fn histograms(of: &Recorders) -> Vec<Histogram> {
    let recorded = Span::ALL.into_iter().filter(|span| of.of(*span).count() > 0);
    recorded
        .map(|span| Histogram { span: span as u32, histogram: of.of(span).to_bytes().into() })
        .collect()
}

/// What [`histograms`] gave; what does not read is left out.
pub(super) fn recorders(histograms: &[Histogram]) -> Recorders {
    let mut recorders = Recorders::default();
    for of in histograms {
        let span = Span::ALL.into_iter().find(|span| *span as u32 == of.span);
        if let Some((span, recorder)) = span.zip(Recorder::from_bytes(&of.histogram)) {
            recorders.add(span, &recorder);
        }
    }
    recorders
}

/// Books what came since `last` of the same worker.
pub(super) fn book(books: &mut Books, last: &Sample, next: &Sample) {
    let since = |of: fn(&Sample) -> u64| of(next).saturating_sub(of(last));
    let counts = Counts {
        acknowledged: since(|of| of.acknowledged),
        deliveries: since(|of| of.deliveries),
        delivered: since(|of| of.delivered),
        dead: since(|of| of.dead),
        completed: since(|of| of.completed),
        errors: 0,
    };
    let verdicts = std::array::from_fn::<_, { Verdict::ALL.len() }, _>(|kind| {
        let of = |sample: &Sample| sample.verdicts.get(kind).copied().unwrap_or_default();
        of(next).saturating_sub(of(last))
    });
    books.add(&counts, verdicts, &recorders(&next.latencies));
    for (name, count) in newly(&last.errors, &next.errors) {
        books.error(name, count);
    }
}

fn newly<'a>(
    last: &'a BTreeMap<String, u64>,
    next: &'a BTreeMap<String, u64>,
) -> impl Iterator<Item = (&'a str, u64)> {
    let since = |(name, count): (&'a String, &u64)| {
        let before = last.get(name).copied().unwrap_or_default();
        (name.as_str(), count.saturating_sub(before))
    };
    next.iter().map(since).filter(|(_, count)| *count > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::meter::Meter;

    #[test]
    fn samples_of_several_workers_add_up() {
        let workers = [Meter::default(), Meter::default()];
        let all = Meter::default();
        let mut last = [Sample::default(), Sample::default()];
        for round in 1..=3u64 {
            for (worker, last) in workers.iter().zip(&mut last) {
                let mut books = worker.books();
                books.counts.acknowledged += round;
                books.verdict(Verdict::Abandon);
                books.error("refused", round);
                books.record(Span::Send, Duration::from_millis(round), true);
                let next = take(&mut books);
                book(&mut all.books(), last, &next);
                *last = next;
            }
        }
        let mut books = all.books();
        assert_eq!((books.counts.acknowledged, books.counts.errors), (12, 12));
        assert_eq!(books.errors["refused"], 12);
        assert_eq!(books.verdicts()["abandoned"], 6);
        assert_eq!(books.take_slice().of(Span::Send).count(), 6);
        let measured = recorders(&histograms(&workers[0].books().measured()));
        assert_eq!(measured.of(Span::Send).count(), 3);
        assert_eq!(measured.of(Span::Settle).count(), 0);
    }
}
