//! Faults that clients are to meet: rules from a file, and their way to the cluster.

use std::path::Path;

use anyhow::Context;
use client::Client;
use definitions::place::{TomlFault, line_of};
use fault_rules::{Rule, RulesFile, WrittenRule};

use crate::terminal;

/// Has the rules be in force, one after the other, and says so.
pub async fn put(client: &Client, rules: Vec<WrittenRule>) -> anyhow::Result<()> {
    for mut rule in rules {
        let is_drawn = rule.probability.is_some() || rule.time.is_some();
        if rule.seed.is_none() && is_drawn {
            rule.seed = Some(u64::from(rand::random::<u32>()));
        }
        let text = serde_json::to_string(&WrittenRule { name: String::new(), ..rule.clone() })?;
        let silent = client.put_fault_rule(&rule.name, &text).await?;
        tell_silent(&silent);
        let seed = rule.seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        terminal::line(format!("'{}' is met from now on{seed}", rule.name))?;
    }
    Ok(())
}

/// The rules of a file, all of which make sense.
pub fn read(path: &Path) -> anyhow::Result<Vec<WrittenRule>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("fault rules '{shown}' cannot be read"))?;
    let file: RulesFile = toml::from_str(&text)
        .map_err(|error| terminal::usage(TomlFault::of(&text, &error).told(&shown.to_string())))?;
    for (number, rule) in file.faults.iter().enumerate() {
        let told = |path: String, why: String| {
            let line = line_of(&text, &path).unwrap_or_default();
            terminal::usage(format!("{shown}:{line}: {why}"))
        };
        if rule.name.is_empty() {
            let why = "name: a rule in a file needs one".to_owned();
            return Err(told(format!("faults[{number}]"), why));
        }
        if let Err(fault) = Rule::of(rule) {
            return Err(told(format!("faults[{number}].{}", fault.key), fault.to_string()));
        }
        if file.faults[..number].iter().any(|other| other.name == rule.name) {
            let why = format!("name: there is another '{}' in this file", rule.name);
            return Err(told(format!("faults[{number}].name"), why));
        }
    }
    Ok(file.faults)
}

/// Nodes that do not say that they go by a change.
pub fn tell_silent(silent: &[u64]) {
    if silent.is_empty() {
        return;
    }
    let nodes: Vec<String> = silent.iter().map(u64::to_string).collect();
    terminal::complain(&format!(
        "node {} does not say that it goes by this: it is down, of another version, or does not allow faults",
        nodes.join(", ")
    ));
}
