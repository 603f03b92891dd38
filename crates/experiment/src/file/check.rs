//! What types do not say of a file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use definitions::place::line_of;
use definitions::{Definitions, Problem};
use fault_rules::{Rule, WrittenRule};

use super::program::ProgramText;
use super::{Document, Drawn, ExperimentFile, FileFault, NodeFault, NodeFaultText, ProgramSpec};

const LASTS: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_secs(1);
const LASTS_MAX: Duration = Duration::from_secs(24 * 3600);
const NODES: u64 = 3;
const PROGRAMS_MAX: u32 = 100;

/// A file that is being checked.
pub(super) struct Check<'a> {
    pub text: &'a str,
    pub name: &'a str,
}

impl Check<'_> {
    pub fn file(
        &self,
        document: Document,
        directory: PathBuf,
        run: u32,
        seed: Option<u64>,
    ) -> Result<ExperimentFile, FileFault> {
        let Document {
            name,
            seed: written_seed,
            lasts,
            settle,
            cluster,
            queues,
            topics,
            programs,
            sends,
            faults,
            node_faults,
            drawn,
            invariants,
        } = document;
        let lasts = lasts.map_or(LASTS, |time| time.0);
        if lasts.is_zero() || lasts > LASTS_MAX {
            return Err(self.at("lasts", "allowed is more than 0s, and at most a day"));
        }
        let settle = settle.map_or(SETTLE, |time| time.0);
        if settle > LASTS_MAX {
            return Err(self.at("settle", "allowed is at most a day"));
        }
        let nodes = cluster.nodes.unwrap_or(NODES);
        if ![1, 3, 5].contains(&nodes) {
            let told = format!("it is {nodes}, allowed is 1, 3 or 5");
            return Err(self.at("cluster.nodes", &told));
        }
        if programs.is_empty() && sends.is_empty() {
            let told = "nobody sends or receives; write [[programs]] or [[sends]]";
            return Err(format!("{}: {told}", self.name));
        }
        if invariants.is_empty() {
            let told = "nothing has to hold; write [[invariants]]";
            return Err(format!("{}: {told}", self.name));
        }
        let entities = self.entities(queues, topics)?;
        let programs = self.programs(&programs, &directory)?;
        let mut read_sends = Vec::new();
        for (number, of) in sends.into_iter().enumerate() {
            let read = of.read();
            read_sends.push(read.map_err(|(key, told)| self.at_key("sends", number, key, &told))?);
        }
        self.rules(&faults)?;
        let node_faults = self.node_faults(node_faults, nodes, lasts)?;
        self.drawn(&drawn, &programs, &node_faults)?;
        let mut read_invariants = Vec::new();
        for (number, of) in invariants.into_iter().enumerate() {
            let wrong = |(key, told): (&str, String)| self.at_key("invariants", number, key, &told);
            let invariant = of.read().map_err(wrong)?;
            if let super::Invariant::LocksKept { program: Some(program), .. } = &invariant
                && !programs.iter().any(|of| of.kind == *program)
            {
                let told = format!("there is no program '{program}' in this file");
                return Err(self.at_key("invariants", number, "program", &told));
            }
            read_invariants.push(invariant);
        }
        Ok(ExperimentFile {
            name: name.unwrap_or_else(|| self.name.to_owned()),
            directory,
            seed: seed.or(written_seed).unwrap_or(u64::from(run)),
            run,
            lasts,
            settle,
            nodes,
            entities,
            programs,
            sends: read_sends,
            rules: faults,
            node_faults,
            drawn,
            invariants: read_invariants,
        })
    }

    /// `file:12: key: what is wrong`.
    fn at(&self, path: &str, told: &str) -> FileFault {
        let line = line_of(self.text, path).map_or_else(String::new, |line| format!(":{line}"));
        format!("{}{line}: {path}: {told}", self.name)
    }

    fn at_key(&self, table: &str, number: usize, key: &str, told: &str) -> FileFault {
        self.at(&format!("{table}[{number}].{key}"), told)
    }

    fn programs(
        &self,
        programs: &[ProgramText],
        directory: &std::path::Path,
    ) -> Result<Vec<ProgramSpec>, FileFault> {
        let mut all: Vec<ProgramSpec> = Vec::new();
        for (number, of) in programs.iter().enumerate() {
            let wrong = |key: &str, told: &str| Err(self.at_key("programs", number, key, told));
            // It is part of a file's name.
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if of.name.is_empty() || of.name.starts_with('.') || !of.name.chars().all(is_plain) {
                return wrong("name", "allowed are letters, digits, '-', '_' and '.'");
            }
            if of.command.words().first().is_none_or(String::is_empty) {
                let told = "it is empty; write [\"python3\", \"worker.py\"], or a line for sh";
                return wrong("command", told);
            }
            if !(1..=PROGRAMS_MAX).contains(&of.count) {
                let told = format!("it is {}, allowed is 1 to {PROGRAMS_MAX}", of.count);
                return wrong("count", &told);
            }
            for (event, it) in of.events.iter().enumerate() {
                let key = format!("events[{event}].lasts");
                if it.lasts.is_some() && it.deed.undone_by().is_none() {
                    return wrong(&key, "only kill, stop and pause last a time; leave it out");
                }
            }
            let home = of.directory.as_ref().map_or(directory.to_owned(), |of| directory.join(of));
            let specs = of.read(home);
            if let Some(twice) = specs.iter().find(|of| all.iter().any(|it| it.name == of.name)) {
                return wrong("name", &format!("there is another '{}' in this file", twice.name));
            }
            all.extend(specs);
        }
        Ok(all)
    }

    fn rules(&self, rules: &[WrittenRule]) -> Result<(), FileFault> {
        let mut names = BTreeSet::new();
        for (number, rule) in rules.iter().enumerate() {
            let wrong = |key: &str, told: &str| Err(self.at_key("faults", number, key, told));
            if rule.name.is_empty() {
                return wrong("name", "a rule in a file needs one");
            }
            if let Err(fault) = Rule::of(rule) {
                return wrong(fault.key, &fault.why);
            }
            if !names.insert(&rule.name) {
                return wrong("name", &format!("there is another '{}' in this file", rule.name));
            }
        }
        Ok(())
    }

    /// In their order; they do not overlap.
    fn node_faults(
        &self,
        faults: Vec<NodeFaultText>,
        nodes: u64,
        lasts: Duration,
    ) -> Result<Vec<NodeFault>, FileFault> {
        let mut read: Vec<(usize, NodeFault)> = Vec::new();
        for (number, of) in faults.into_iter().enumerate() {
            let wrong =
                |(key, told): (&str, String)| self.at_key("node_faults", number, key, &told);
            let fault = of.read(nodes).map_err(wrong)?;
            if fault.at >= lasts {
                let told = "the experiment is over by then; write a longer lasts";
                return Err(self.at_key("node_faults", number, "at", told));
            }
            read.push((number, fault));
        }
        read.sort_by_key(|(_, fault)| fault.at);
        for pair in read.windows(2) {
            if pair[0].1.at + pair[0].1.lasts > pair[1].1.at {
                let told = "it begins before the fault before it is over";
                return Err(self.at_key("node_faults", pair[1].0, "at", told));
            }
        }
        Ok(read.into_iter().map(|(_, fault)| fault).collect())
    }

    fn drawn(
        &self,
        drawn: &Drawn,
        programs: &[ProgramSpec],
        node_faults: &[NodeFault],
    ) -> Result<(), FileFault> {
        if let Some(name) =
            drawn.programs.iter().find(|name| !programs.iter().any(|of| of.kind == **name))
        {
            let told = format!("there is no program '{name}' in this file");
            return Err(self.at("drawn.programs", &told));
        }
        if !drawn.node_faults.is_empty() && !node_faults.is_empty() {
            let told = "faults of nodes are drawn or written in [[node_faults]], not both";
            return Err(self.at("drawn.node_faults", told));
        }
        match drawn.node_faults.iter().find(|kind| kind.fits(false, false, false).is_err()) {
            Some(kind) => {
                let told = format!("an experiment with programs has no '{kind}'; leave it out");
                Err(self.at("drawn.node_faults", &told))
            }
            None => Ok(()),
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
