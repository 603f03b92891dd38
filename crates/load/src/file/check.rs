//! What types do not say of a file.

use std::ops::RangeInclusive;
use std::time::Duration;

use definitions::place::line_of;
use definitions::{Definitions, Problem};
use toml::Spanned;

use super::body::{Attachments, Bodies, BodyText};
use super::party::{ConsumersText, ProducersText};
use super::{Document, FileFault, FileSource, LoadFile, Mode};
use crate::need::{Feature, Need};
use crate::place::is_dead_letter;
use crate::threshold::Threshold;

/// Of producers and of consumers, all kinds together.
const PARTIES_MAX: u32 = 10_000;
const WINDOW_MAX: u32 = 100_000;
const BATCH_MAX: u32 = 4_000;
/// As many messages as a transaction takes (TX).
const TRANSACTION_MAX: u32 = 100;
const MEASURE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// A file that is being checked.
pub(super) struct Check<'a> {
    pub text: &'a str,
    pub name: &'a str,
}

impl Check<'_> {
    pub fn file(
        &self,
        document: Document,
        source: FileSource,
        mut attachments: Attachments,
    ) -> Result<LoadFile, FileFault> {
        let Document { name, seed, thresholds, phases, queues, topics, producers, consumers } =
            document;
        let thresholds = thresholds.into_iter().map(|of| self.threshold(&of));
        let thresholds = thresholds.collect::<Result<_, _>>()?;
        let entities = self.entities(queues, topics)?;
        if producers.is_empty() && consumers.is_empty() {
            let told = "nobody sends or receives; write [[producers]] or [[consumers]]";
            return Err(format!("{}: {told}", self.name));
        }
        for of in &producers {
            self.producers(of.get_ref())?;
        }
        for of in &consumers {
            self.consumers(of.get_ref())?;
        }
        self.several(producers.iter().map(|of| &of.get_ref().count))?;
        self.several(consumers.iter().map(|of| &of.get_ref().count))?;
        let profile = producers.iter().filter_map(|of| of.get_ref().profile()).max();
        let (phases, factor) = phases.read(profile, source.seconds);
        if phases.measure.is_zero() || phases.measure > MEASURE_MAX {
            return Err(self.at("phases.measure", "allowed is more than 0s, and at most a week"));
        }
        let needs = self.needs(&producers, &consumers);
        let mut bodies = Vec::new();
        for of in &producers {
            bodies.push(self.bodies(&of.get_ref().body, &mut attachments)?);
        }
        let producers = producers.into_iter().zip(bodies);
        Ok(LoadFile {
            name: name.unwrap_or_else(|| self.name.to_owned()),
            seed: seed.unwrap_or(1),
            phases,
            entities,
            producers: producers
                .map(|(of, bodies)| of.into_inner().read(factor, phases.warm_up, bodies))
                .collect(),
            consumers: consumers.into_iter().map(|of| of.into_inner().read()).collect(),
            thresholds,
            needs,
            source,
            attachments,
        })
    }

    /// `file:12: key: what is wrong`.
    fn at(&self, path: &str, told: &str) -> FileFault {
        let line = line_of(self.text, path).map_or_else(String::new, |line| format!(":{line}"));
        format!("{}{line}: {path}: {told}", self.name)
    }

    fn at_value<T>(&self, of: &Spanned<T>, key: &str, told: &str) -> FileFault {
        let before = &self.text[..of.span().start.min(self.text.len())];
        format!("{}:{}: {key}: {told}", self.name, before.matches('\n').count() + 1)
    }

    fn within(
        &self,
        of: &Spanned<u32>,
        key: &str,
        allowed: RangeInclusive<u32>,
    ) -> Result<(), FileFault> {
        if allowed.contains(of.get_ref()) {
            return Ok(());
        }
        let (least, most) = (allowed.start(), allowed.end());
        let told = format!("it is {}, allowed is {least} to {most}", of.get_ref());
        Err(self.at_value(of, key, &told))
    }

    fn several<'a>(&self, counts: impl Iterator<Item = &'a Spanned<u32>>) -> Result<(), FileFault> {
        let mut all = 0u32;
        for count in counts {
            all = all.saturating_add(*count.get_ref());
            if all > PARTIES_MAX {
                let told = format!("together {all} and more, allowed is {PARTIES_MAX}");
                return Err(self.at_value(count, "count", &told));
            }
        }
        Ok(())
    }

    fn threshold(&self, of: &Spanned<String>) -> Result<Threshold, FileFault> {
        let read = of.get_ref().parse();
        read.map_err(|told: String| self.at_value(of, "thresholds", &told))
    }

    fn producers(&self, of: &ProducersText) -> Result<(), FileFault> {
        self.named(&of.to, "to")?;
        self.within(&of.count, "count", 1..=PARTIES_MAX)?;
        self.within(&of.window, "window", 1..=WINDOW_MAX)?;
        self.within(&of.batch, "batch", 1..=BATCH_MAX.min(*of.window.get_ref()))?;
        if let Some(transaction) = &of.transaction {
            let most = TRANSACTION_MAX.min(*of.window.get_ref());
            self.within(transaction, "transaction", 1..=most)?;
            if *of.batch.get_ref() > 1 {
                let told = "what is sent in transactions is sent one by one; leave out batch";
                return Err(self.at_value(&of.batch, "batch", told));
            }
        }
        if let Some(cancel) = &of.cancel
            && (of.schedule.is_none() || of.transaction.is_some())
        {
            let told = "only what is scheduled is cancelled, and outside of transactions; write schedule, and leave out transaction";
            return Err(self.at_value(cancel, "cancel", told));
        }
        match &of.roll_back {
            Some(share) if of.transaction.is_none() => {
                let told = "only transactions are rolled back; write transaction = 5 as well";
                Err(self.at_value(share, "roll_back", told))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn bodies(
        &self,
        of: &Spanned<BodyText>,
        attachments: &mut Attachments,
    ) -> Result<Bodies, FileFault> {
        match of.get_ref() {
            BodyText::Drawn(sizes) => Ok(Bodies::Drawn(*sizes)),
            BodyText::From(file) => {
                let found = attachments.find(file);
                found.map(Bodies::Texts).map_err(|told| self.at_value(of, "body", &told))
            }
        }
    }

    /// What not every broker has, where it is asked for.
    fn needs(
        &self,
        producers: &[Spanned<ProducersText>],
        consumers: &[Spanned<ConsumersText>],
    ) -> Vec<Need> {
        let mut needs = Vec::new();
        for of in producers.iter().map(Spanned::get_ref) {
            needs.extend(self.need(of.schedule.as_ref(), "schedule", Feature::Schedules));
            needs.extend(self.need(of.cancel.as_ref(), "cancel", Feature::Cancelling));
            needs.extend(self.need(of.transaction.as_ref(), "transaction", Feature::Transactions));
            let batch = Some(&of.batch).filter(|batch| *batch.get_ref() > 1);
            needs.extend(self.need(batch, "batch", Feature::Batches));
        }
        for of in consumers.iter().map(Spanned::get_ref) {
            let sessions = of.sessions.as_ref().filter(|sessions| *sessions.get_ref());
            needs.extend(self.need(sessions, "sessions", Feature::Sessions));
            let dead = Some(&of.from).filter(|from| is_dead_letter(from.get_ref()));
            needs.extend(self.need(dead, "from", Feature::DeadLetterQueues));
            needs.extend(self.need(of.defer.as_ref(), "defer", Feature::Deferral));
            needs.extend(self.need(of.renew.as_ref(), "renew", Feature::Renewal));
        }
        needs
    }

    fn need<T>(&self, of: Option<&Spanned<T>>, key: &str, feature: Feature) -> Option<Need> {
        let before = &self.text[..of?.span().start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        Some(Need { feature, place: format!("{}:{line}: {key}", self.name) })
    }

    fn consumers(&self, of: &ConsumersText) -> Result<(), FileFault> {
        self.named(&of.from, "from")?;
        self.within(&of.count, "count", 1..=PARTIES_MAX)?;
        self.within(&of.prefetch, "prefetch", 1..=WINDOW_MAX)?;
        self.within(&of.at_a_time, "at_a_time", 1..=WINDOW_MAX)?;
        let not_completed = of.not_completed();
        if not_completed > 1.0 {
            let told =
                "what is abandoned, dead-lettered, deferred and left to lapse is more than 100%";
            return Err(self.at_value(&of.from, "from", told));
        }
        if of.mode == Mode::ReceiveAndDelete && not_completed > 0.0 {
            let told = "mode receive-and-delete settles nothing; leave out abandon, dead_letter, defer and lapse";
            return Err(self.at_value(&of.from, "from", told));
        }
        Ok(())
    }

    fn named(&self, of: &Spanned<String>, key: &str) -> Result<(), FileFault> {
        match of.get_ref().is_empty() {
            true => Err(self.at_value(of, key, "it names nothing; write a queue, a topic, or a subscription as topic/Subscriptions/name")),
            false => Ok(()),
        }
    }

    /// In the form of definitions, with their checks.
    fn entities(
        &self,
        queues: Vec<toml::Table>,
        topics: Vec<toml::Table>,
    ) -> Result<Definitions, FileFault> {
        definitions::section(queues, topics, self.name).map_err(|problem| self.told(&problem))
    }

    /// With its line: definitions know the path to it.
    fn told(&self, problem: &Problem) -> FileFault {
        match problem.path_in(self.name) {
            Some(path) => self.at(path, &problem.why),
            None => format!("{}: {problem}", self.name),
        }
    }
}
