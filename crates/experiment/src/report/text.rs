//! The summary a person reads.

use std::fmt;

use crate::checks::counted;

use super::{Example, Judgement, LifeLine, Report, Verdict};

/// Failures of one invariant that are told one by one; a report's files have more.
const TOLD_MAX: usize = 3;
/// Last lines of a program that are told where something is broken.
const LINES_MAX: usize = 5;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: seed {}, {}", self.name, self.seed, counted(self.nodes, "node"))?;
        if self.interrupted {
            writeln!(f, "  interrupted  what follows is of the time until then")?;
        }
        let starts = counted(self.starts(), "start");
        writeln!(f, "  programs     {}, {starts}", self.programs.len())?;
        for fed in &self.sent {
            let error =
                fed.last_error.as_ref().map_or_else(String::new, |told| format!(": {told}"));
            let (done, wanted) = (fed.acknowledged, fed.wanted);
            writeln!(f, "  sent         {done} of {wanted} to {}{error}", fed.to)?;
        }
        for entity in &self.entities {
            let ends: Vec<String> =
                entity.ends.iter().map(|(name, count)| format!("{count} {name}")).collect();
            let (count, ends) = (entity.messages, ends.join(", "));
            writeln!(f, "  messages     {}: {count}: {ends}", entity.entity)?;
        }
        for fault in &self.node_faults {
            let at = fault.begun_ms as f64 / 1e3;
            match &fault.skipped {
                Some(why) => {
                    writeln!(f, "  node fault   {at:.1} s: skipped: {}: {why}", fault.told)?
                }
                None => writeln!(f, "  node fault   {at:.1} s: {}", fault.told)?,
            }
        }
        for rule in &self.faults {
            let (events, hits) = (rule.events, rule.hits);
            writeln!(f, "  fault        '{}' met by {hits} of {events} events", rule.name)?;
        }
        if let Some(why) = &self.not_whole {
            writeln!(f, "  WARNING      the cluster was not whole again: {why}")?;
        }
        for gap in &self.gaps {
            writeln!(
                f,
                "  WARNING      the record of group {} lacks entries {} to {}: nothing is certain",
                gap.group, gap.first_index, gap.last_index
            )?;
        }
        self.invariants.iter().try_for_each(|judgement| write!(f, "{judgement}"))?;
        if self.verdict == Verdict::Broken {
            self.last_words(f)?;
        }
        match self.verdict {
            Verdict::Held => write!(f, "every invariant held"),
            Verdict::Broken => write!(f, "repeat it with: {}", self.command),
            Verdict::Unknown => write!(f, "whether every invariant held is unknown"),
        }
    }
}

impl Report {
    fn last_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for program in self.programs.iter().filter(|program| !program.last_lines.is_empty()) {
            writeln!(f, "last words of {}:", program.name)?;
            let lines = &program.last_lines;
            let from = lines.len().saturating_sub(LINES_MAX);
            lines[from..].iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judgement { invariant, verdict, messages, failure_count, failures } = self;
        let messages = counted(*messages, "message");
        let found = match failure_count {
            0 => messages,
            count => format!("{}, {messages}", counted(*count, "failure")),
        };
        writeln!(f, "{verdict:<12} {invariant} ({found})")?;
        failures.iter().take(TOLD_MAX).try_for_each(|example| write!(f, "{example}"))?;
        match failure_count.saturating_sub(TOLD_MAX) {
            0 => Ok(()),
            more => writeln!(f, "  … and {more} more of these"),
        }
    }
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", self.told)?;
        self.messages.iter().take(TOLD_MAX).try_for_each(|line| write!(f, "{line}"))
    }
}

impl fmt::Display for LifeLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let mark = if step.is_own { ' ' } else { '*' };
            writeln!(f, "  {:9.3} s {mark} {}", step.at_ms as f64 / 1e3, step.told)?;
        }
        Ok(())
    }
}
