//! Rules for faults that clients meet: an operator's wish in the catalog, which every node goes by.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{
    CatalogCommand, CatalogOutcome, FEATURE_LEVEL_FAULT_RULES, FaultRuleRow, Key, Outcome, Refusal,
    Row, Rows, Timestamp,
};
use fault_rules::Rule;
use futures::future::join_all;
use replication::FaultTally;
use tokio::time::Instant;

use crate::edge::catalog::{self, Catalog};
use crate::edge::cluster::Cluster;
use crate::edge::receiver::unexpected;
use crate::edge::router::Router;
use crate::error::{Error, Result};

/// Nodes that live go by a change within this: each looks often whether the catalog has changed.
const HEEDED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);

const NOT_ALLOWED: Refusal = Refusal::InvalidOperation {
    why: "faults are met in development mode only, or where node.fault_rules is set on every node",
};

/// The rules of the cluster, and what came of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRules {
    /// With the events at each one's place and in its time, and those that met its fault, over all nodes.
    pub rules: Vec<(FaultRuleRow, u64, u64)>,
    /// Nodes that did not answer: their counts are missing.
    pub silent: Vec<u64>,
}

impl Cluster<'_> {
    /// Has a rule be in force, in the place of another of its name. Returns once all nodes that answer go by it; the
    /// others.
    ///
    /// # Errors
    /// Refused where faults are not allowed, or the rule makes no sense.
    pub async fn put_fault_rule(self, name: String, text: String) -> Result<Vec<u64>> {
        self.check_faults_allowed()?;
        let rule = Rule::parse(&text).map_err(|why| {
            let why = format!("'{name}': {why}");
            Error::new(Refusal::Argument { what: "fault rule", why }, "")
        })?;
        self.of_level(FEATURE_LEVEL_FAULT_RULES, "fault rules").await?;
        let lasts = rule.lasts;
        let put = CatalogCommand::PutFaultRule { name: name.clone(), text, lasts };
        let at = self.changed(put).await?;
        let is_put = |rules: &[FaultRuleRow]| {
            rules.iter().any(|rule| rule.name == name && rule.added_at == at)
        };
        self.heeded(at, is_put).await
    }

    /// Has the rule of that name, or all of them, be in force no more. Returns as [`Cluster::put_fault_rule`].
    ///
    /// # Errors
    /// Refused where there is none of that name.
    pub async fn remove_fault_rules(self, name: Option<String>) -> Result<Vec<u64>> {
        self.check_faults_allowed()?;
        let router = self.router();
        self.of_level(FEATURE_LEVEL_FAULT_RULES, "fault rules").await?;
        if let Some(name) = &name
            && !rules(&router.local.catalog()).iter().any(|rule| rule.name == *name)
        {
            let why = format!("there is none called '{name}'; 'mayfly fault list' shows them");
            return Err(Error::new(Refusal::Argument { what: "fault rule", why }, ""));
        }
        let at = self.changed(CatalogCommand::RemoveFaultRules { name: name.clone() }).await?;
        let is_gone = |rules: &[FaultRuleRow]| {
            !rules.iter().any(|rule| name.as_ref().is_none_or(|name| rule.name == *name))
        };
        self.heeded(at, is_gone).await
    }

    /// Those that have not ended, as this node has heard of them so far.
    pub async fn fault_rules(self) -> Result<FaultRules> {
        self.check_faults_allowed()?;
        let (router, now) = (self.router(), self.now_here().0);
        let (mut told, mut silent) = (Vec::new(), Vec::new());
        for (node, tallies) in tallies(router).await {
            match tallies {
                Some(tallies) => told.extend(tallies),
                None => silent.push(node),
            }
        }
        let rules = in_force(&router.local.catalog(), now).into_iter().map(|rule| {
            let own = told.iter().filter(|tally| is_of(tally, &rule));
            let counts = own.map(|tally| (tally.events, tally.hits));
            let (events, hits) = counts.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
            (rule, events, hits)
        });
        Ok(FaultRules { rules: rules.collect(), silent })
    }

    fn check_faults_allowed(self) -> Result<()> {
        match self.router().local.about.faults.is_some() {
            true => Ok(()),
            false => Err(Error::new(NOT_ALLOWED, "")),
        }
    }

    /// When the catalog did it.
    async fn changed(self, command: CatalogCommand) -> Result<Timestamp> {
        let router = self.router();
        match Catalog::new(router).ask(command, "", router.deadline()).await? {
            Outcome::Catalog(CatalogOutcome::FaultRulesChanged { at }) => Ok(at),
            other => Err(unexpected(&other, "".into())),
        }
    }

    /// Waits until every node goes by a change; those that do not say so in time. `is_heard`: whether rules are those
    /// of that moment, as this node may not have applied it yet, though the catalog's leader has.
    async fn heeded(
        self,
        at: Timestamp,
        is_heard: impl Fn(&[FaultRuleRow]) -> bool,
    ) -> Result<Vec<u64>> {
        let (router, until) = (self.router(), Instant::now() + HEEDED_WITHIN);
        let mut pause = LOOK_EVERY;
        loop {
            let (now, rows) = (self.now_here().0, router.local.catalog());
            let is_later = domain::meta(&rows).last_at > at;
            if !is_later && !is_heard(&rules(&rows)) && router.wait(&mut pause, until).await {
                continue;
            }
            let wanted = in_force(&rows, now);
            let heeds = |told: &[FaultTally]| {
                let has = |rule| told.iter().any(|tally| is_of(tally, rule));
                told.len() == wanted.len() && wanted.iter().all(has)
            };
            let mut told = tallies(router).await;
            told.retain(|(_, tallies)| !tallies.as_deref().is_some_and(heeds));
            let is_waited_for = told.iter().any(|(_, tallies)| tallies.is_some());
            if !is_waited_for || Instant::now() >= until {
                return Ok(told.into_iter().map(|(node, _)| node).collect());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn is_of(tally: &FaultTally, rule: &FaultRuleRow) -> bool {
    tally.name == rule.name && tally.added_at_ms == rule.added_at.0
}

/// What each node counts; `None` of one that does not answer.
async fn tallies(router: &Router) -> Vec<(u64, Option<Vec<FaultTally>>)> {
    let nodes: BTreeSet<u64> = catalog::nodes(&router.local.catalog()).into_keys().collect();
    let asked = nodes.into_iter().map(|node| async move {
        let told = match node == router.local.id {
            true => Some(router.local.describe()),
            false => router.links.describe(node).await,
        };
        (node, told.map(|told| told.faults))
    });
    join_all(asked).await
}

/// What this node is to go by.
pub(crate) fn fault_rules_in_force(router: &Router) -> Vec<FaultRuleRow> {
    let rows = router.local.catalog();
    let offset = domain::meta(&rows).clock_offset;
    in_force(&rows, router.local.clock.told().plus(offset))
}

fn rules(rows: &impl Rows) -> Vec<FaultRuleRow> {
    match rows.get(&Key::FaultRules) {
        Some(Row::FaultRules(rules)) => rules,
        _ => Vec::new(),
    }
}

/// Those that have not ended.
fn in_force(rows: &impl Rows, now: Timestamp) -> Vec<FaultRuleRow> {
    let mut rules = rules(rows);
    rules.retain(|rule| rule.ends_at.is_none_or(|ends_at| now < ends_at));
    rules
}
