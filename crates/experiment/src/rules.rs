//! Faults that clients meet in a run.

use std::time::Duration;

use client::Client;
use fault_rules::WrittenRule;
use serde::Serialize;

use crate::Error;

/// Rules of a run that nobody took away end by themselves so long after it.
const OUTLIVES: Duration = Duration::from_secs(600);

/// Rules that are in force.
#[derive(Default)]
pub struct RulesInForce {
    /// As the file calls them, and as the cluster does.
    names: Vec<(WrittenRule, String)>,
}

/// A rule as it was met.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RuleMet {
    pub name: String,
    /// Its other keys.
    pub rule: serde_json::Value,
    /// Events that it was asked about, and those that met it.
    pub events: u64,
    pub hits: u64,
}

impl RulesInForce {
    /// Puts them into force; what is drawn is drawn from the seed. None of those that are in force already stays where
    /// one is refused.
    ///
    /// # Errors
    /// The cluster refuses one, as it does outside of development mode.
    pub async fn put(
        &mut self,
        client: &Client,
        rules: &[WrittenRule],
        (run, seed): (u32, u64),
        lasts: Duration,
    ) -> Result<(), Error> {
        for (number, rule) in rules.iter().enumerate() {
            let mut rule = rule.clone();
            if rule.probability.is_some() || rule.time.is_some() {
                rule.seed.get_or_insert(seed.wrapping_add(number as u64));
            }
            let ends_ms = (lasts + OUTLIVES).as_millis() as u64;
            rule.ends_after.get_or_insert_with(|| definitions::duration::show_ms(ends_ms));
            let name = format!("experiment-{run:08x}-{}", rule.name);
            let nameless = WrittenRule { name: String::new(), ..rule.clone() };
            let text = serde_json::to_string(&nameless)
                .map_err(|error| Error::Wrong(format!("rule '{}': {error}", rule.name)))?;
            let put = client.put_fault_rule(&name, &text).await;
            put.map_err(|error| Error::Wrong(format!("faults '{}': {error}", rule.name)))?;
            self.names.push((rule, name));
        }
        Ok(())
    }

    /// Takes them out of force; how often each was met, as far as the cluster says.
    ///
    /// # Errors
    /// One is in force still.
    pub async fn take(&mut self, client: &Client) -> Result<Vec<RuleMet>, Error> {
        if self.names.is_empty() {
            return Ok(Vec::new());
        }
        let told = client.fault_rules().await.map(|told| told.rules).unwrap_or_default();
        let mut met = Vec::new();
        while let Some((rule, name)) = self.names.last().cloned() {
            client.remove_fault_rules(Some(&name)).await?;
            self.names.pop();
            let found = told.iter().find(|of| of.name == name);
            let (events, hits) = found.map_or((0, 0), |of| (of.events, of.hits));
            let nameless = WrittenRule { name: String::new(), ..rule.clone() };
            let text = serde_json::to_value(&nameless).unwrap_or_default();
            met.push(RuleMet { name: rule.name, rule: text, events, hits });
        }
        met.reverse();
        Ok(met)
    }
}
