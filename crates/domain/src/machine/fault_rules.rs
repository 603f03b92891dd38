//! Faults that clients are to meet (FAULT-1): kept with the cluster, so that a change of leaders ends none.

use crate::machine::members::Members;
use crate::{
    CatalogOutcome, FAULT_RULE_BYTES_MAX, FAULT_RULE_NAME_BYTES_MAX, FAULT_RULES_MAX, FaultRuleRow,
    Key, Outcome, Refusal, Row, Rows, Span, Timestamp,
};

const WHAT: &str = "fault rule";

fn refuse(why: String) -> Result<Outcome, Refusal> {
    Err(Refusal::Argument { what: WHAT, why })
}

pub(super) struct FaultRules<'s, R> {
    pub at: Timestamp,
    pub members: Members<'s, R>,
}

impl<R: Rows> FaultRules<'_, R> {
    /// In the place of the one of that name, if there is one. Those that have ended are forgotten.
    pub fn put(
        &mut self,
        name: String,
        text: String,
        lasts: Option<Span>,
    ) -> Result<Outcome, Refusal> {
        self.members.formed()?;
        if name.is_empty() || name.len() > FAULT_RULE_NAME_BYTES_MAX {
            return refuse(format!(
                "its name has {} bytes, allowed is 1 to {FAULT_RULE_NAME_BYTES_MAX}",
                name.len()
            ));
        }
        if text.len() > FAULT_RULE_BYTES_MAX {
            return refuse(format!(
                "'{name}' has {} bytes, allowed is {FAULT_RULE_BYTES_MAX}",
                text.len()
            ));
        }
        let at = self.at;
        let mut rules = self.rules();
        rules.retain(|rule| rule.name != name && rule.ends_at.is_none_or(|ends_at| at < ends_at));
        if rules.len() >= FAULT_RULES_MAX {
            let (what, used) = ("the cluster (fault rules)", rules.len() as u64);
            return Err(Refusal::QuotaExceeded { what, used, max: FAULT_RULES_MAX as u64 });
        }
        let ends_at = lasts.map(|lasts| at.plus(lasts));
        rules.push(FaultRuleRow { name, text, added_at: at, ends_at });
        self.members.view.put(Key::FaultRules, Row::FaultRules(rules));
        Ok(self.changed())
    }

    /// The one of that name, or all of them, if there are any.
    pub fn remove(&mut self, name: Option<String>) -> Outcome {
        let mut rules = self.rules();
        let before = rules.len();
        rules.retain(|rule| name.as_ref().is_some_and(|name| rule.name != *name));
        if rules.len() < before {
            self.members.view.put(Key::FaultRules, Row::FaultRules(rules));
        }
        self.changed()
    }

    fn changed(&self) -> Outcome {
        Outcome::Catalog(CatalogOutcome::FaultRulesChanged { at: self.at })
    }

    fn rules(&mut self) -> Vec<FaultRuleRow> {
        match self.members.view.get(&Key::FaultRules) {
            Some(Row::FaultRules(rules)) => rules,
            _ => Vec::new(),
        }
    }
}
