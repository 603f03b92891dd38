//! Rules: `PutRule` and `RemoveRule`, and the rules of a topic as publishing looks at them: decoded
//! once, found by what a message has, and changed in place when a rule or a subscription is.

mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

pub(super) use self::walk::Walked;
use crate::machine::Step;
use crate::machine::level::GroupLevel;
use crate::machine::view::View;
use crate::{
    Action, CORRELATION_FILTERS_MAX, Change, CorrelationIndex, Draw, EntityId, EvaluationError,
    Filter, Key, MatchCost, NewRule, Outcome, PutRule, Refusal, RemoveRule, Row, Rows, RuleCounts,
    RuleError, RulePart, RuleRow, SQL_FILTERS_MAX, Specifics, SqlFilter, Subject,
    SubscriptionSpecifics, Timestamp,
};

/// A rule of a topic: its subscription, and its place among that one's rules (RULE-7).
pub(super) type RuleId = (EntityId, u32);

/// A topic's rules, compiled. It says nothing that the rows do not say.
#[derive(Default)]
pub(super) struct TopicRules {
    rules: BTreeMap<RuleId, Known>,
    /// Those that take every message.
    always: BTreeSet<RuleId>,
    /// Those that are tried on every message.
    tried: BTreeMap<RuleId, Result<SqlFilter, EvaluationError>>,
    /// Those that are looked up.
    correlated: CorrelationIndex<RuleId>,
    with_action: usize,
}

struct Known {
    name: String,
    action: Option<Result<Action, EvaluationError>>,
}

/// A copy to be made of a message.
pub(super) struct Copy {
    pub subscription: EntityId,
    pub made: Made,
}

/// What becomes of a copy.
pub(super) enum Made {
    Plain,
    /// By the action of the rule of this name (RULE-6).
    Changed(String, Box<Change>),
    /// A filter or an action failed on the message (RULE-20).
    Failed(EvaluationError),
}

impl TopicRules {
    fn insert(&mut self, id: RuleId, rule: RuleRow, level: GroupLevel) {
        match rule.filter.compile() {
            Ok(Filter::True) => drop(self.always.insert(id)),
            Ok(Filter::False) => (),
            Ok(Filter::Sql(filter)) => drop(self.tried.insert(id, Ok(filter))),
            Ok(Filter::Correlation(filter)) => self.correlated.insert(id, filter),
            Err(error) => drop(self.tried.insert(id, Err(unreadable(RulePart::Filter, &error)))),
        }
        let action = rule.action.map(|action| {
            level.stored_action(&action).map_err(|error| unreadable(RulePart::Action, &error))
        });
        self.with_action += usize::from(action.is_some());
        self.rules.insert(id, Known { name: rule.name, action });
    }

    fn remove(&mut self, id: RuleId) {
        let known = self.rules.remove(&id);
        self.with_action -= usize::from(known.is_some_and(|known| known.action.is_some()));
        self.always.remove(&id);
        self.tried.remove(&id);
        self.correlated.remove(&id);
    }

    fn remove_subscription(&mut self, subscription: EntityId) {
        let of = (subscription, 0)..=(subscription, u32::MAX);
        let ids: Vec<RuleId> = self.rules.range(of).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    /// Whether any rule needs to know what a message says.
    pub fn look_at_messages(&self) -> bool {
        !self.tried.is_empty() || !self.correlated.is_empty() || self.with_action > 0
    }

    /// The copies of a message: by subscription, and within one as RULE-5 to RULE-7 have it.
    pub fn copies(&self, message: &dyn Subject, draw: &mut Draw<'_>) -> Vec<Copy> {
        let mut copies = Vec::new();
        let matching = self.matching(message, draw);
        for of_one in matching.chunk_by(|one, next| one.0.0 == next.0.0) {
            self.copies_for(of_one, message, draw, &mut copies);
        }
        copies
    }

    /// The rules that take a message or fail on it, in order.
    fn matching(
        &self,
        message: &dyn Subject,
        draw: &mut Draw<'_>,
    ) -> Vec<(RuleId, Option<EvaluationError>)> {
        let mut matching: Vec<_> = self.always.iter().map(|id| (*id, None)).collect();
        for (id, filter) in &self.tried {
            match filter {
                Ok(filter) => match filter.matches(message, draw, &mut MatchCost::default()) {
                    Ok(true) => matching.push((*id, None)),
                    Ok(false) => (),
                    Err(error) => matching.push((*id, Some(error))),
                },
                Err(error) => matching.push((*id, Some(error.clone()))),
            }
        }
        matching.extend(
            self.correlated
                .matches(message, &mut MatchCost::default())
                .into_iter()
                .map(|id| (id, None)),
        );
        matching.sort_unstable_by_key(|(id, _)| *id);
        matching
    }

    /// However many filters of a subscription fail, it gets the message once (RULE-20).
    fn copies_for(
        &self,
        matching: &[(RuleId, Option<EvaluationError>)],
        message: &dyn Subject,
        draw: &mut Draw<'_>,
        copies: &mut Vec<Copy>,
    ) {
        let action = |id: &RuleId| self.rules.get(id).and_then(|rule| rule.action.as_ref());
        let Some(((subscription, _), _)) = matching.first() else { return };
        let mut add = |made| copies.push(Copy { subscription: *subscription, made });
        if matching.iter().any(|(id, error)| error.is_none() && action(id).is_none()) {
            add(Made::Plain);
        }
        if let Some(error) = matching.iter().find_map(|(_, error)| error.as_ref()) {
            add(Made::Failed(error.clone()));
        }
        for (id, error) in matching {
            let (None, Some(rule)) = (error, self.rules.get(id)) else { continue };
            let Some(action) = &rule.action else { continue };
            let changed = match action {
                Ok(action) => action.run(message, draw, &mut MatchCost::default()),
                Err(error) => Err(error.clone()),
            };
            add(match changed {
                Ok(change) => Made::Changed(rule.name.clone(), Box::new(change)),
                Err(error) => Made::Failed(error),
            });
        }
    }
}

/// A rule that this binary does not understand was accepted by another.
fn unreadable(part: RulePart, error: &RuleError) -> EvaluationError {
    EvaluationError { part, text: error.to_string() }
}

/// RULE-21: filter and action must be such as can be compiled.
pub(super) fn check_rule(level: GroupLevel, rule: &NewRule) -> Result<(), Refusal> {
    let refused = |error: RuleError| {
        let (exception, why) = (error.name(), error.to_string());
        Refusal::InvalidRule { exception, why }
    };
    level.rule_name(&rule.name)?;
    rule.filter.compile().map_err(refused)?;
    match &rule.action {
        Some(action) => level.check_action(action).map_err(refused),
        None => Ok(()),
    }
}

impl PutRule {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let specifics = step.open(self.entity)?.subscription_specifics()?;
        check_rule(step.view.level, &self.rule)?;
        let key = Key::Rule(self.entity, self.rule.name.to_ascii_lowercase());
        let old = step.view.rule(&key);
        let order = match (&old, self.replace) {
            (Some(old), true) => old.order,
            (None, false) => step.rules().next_order(self.entity),
            (Some(old), false) => {
                return Err(Refusal::EntityAlreadyExists { name: old.name.clone() });
            }
            (None, true) => return Err(Refusal::EntityNotFound { name: self.rule.name }),
        };
        let before = old.as_ref().map(|rule| rule.counts()).unwrap_or_default();
        recount(step, self.entity, specifics, before, self.rule.counts())?;
        if old.is_some() {
            step.rules().delete(specifics.topic, key, (self.entity, order));
        }
        step.rules().insert(specifics.topic, self.entity, *self.rule, order);
        Ok(Outcome::Done)
    }
}

impl RemoveRule {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let specifics = step.open(self.entity)?.subscription_specifics()?;
        let key = Key::Rule(self.entity, self.name.to_ascii_lowercase());
        let Some(rule) = step.view.rule(&key) else {
            return Err(Refusal::EntityNotFound { name: self.name });
        };
        recount(step, self.entity, specifics, rule.counts(), RuleCounts::default())?;
        step.rules().delete(specifics.topic, key, (self.entity, rule.order));
        Ok(Outcome::Done)
    }
}

/// Counts a rule change at the subscription and its topic; refused beyond the limits (RULE-10).
/// It is use of the subscription (IDLE-2, IDLE-7).
fn recount<R: Rows>(
    step: &mut Step<'_, R>,
    subscription: EntityId,
    specifics: SubscriptionSpecifics,
    before: RuleCounts,
    after: RuleCounts,
) -> Result<(), Refusal> {
    let mut of_topic = step.open(specifics.topic)?.topic_specifics()?;
    of_topic.rules = of_topic.rules.minus(before).plus(after);
    check_limits(before, after, of_topic.rules)?;
    step.set_topic_specifics(specifics.topic, of_topic);
    let mut opened = step.open(subscription)?;
    let rules = specifics.rules.minus(before).plus(after);
    opened.set_specifics(Specifics::Subscription(SubscriptionSpecifics { rules, ..specifics }));
    opened.used_until(opened.at);
    Ok(())
}

/// The rules of a group's topics at work: as rows, and as far as they are decoded.
pub(super) struct Rules<'s, R> {
    pub at: Timestamp,
    pub topics: &'s mut BTreeMap<EntityId, TopicRules>,
    pub view: &'s mut View<R>,
}

impl<R: Rows> Rules<'_, R> {
    /// The place behind all rules of a subscription.
    pub fn next_order(&mut self, subscription: EntityId) -> u32 {
        let mut next = 0;
        self.rules_of(subscription, &mut |rule| next = next.max(rule.order.saturating_add(1)));
        next
    }

    fn rules_of(&mut self, subscription: EntityId, visit: &mut dyn FnMut(&RuleRow)) {
        let from = Key::Rule(subscription, String::new());
        let to = Key::Rule(EntityId(subscription.0 + 1), String::new());
        self.view.scan(&from, &to, &mut |_, row| {
            if let Row::Rule(rule) = row {
                visit(rule);
            }
            ControlFlow::Continue(())
        });
    }

    /// Writes a rule that is not there.
    pub fn insert(&mut self, topic: EntityId, subscription: EntityId, rule: NewRule, order: u32) {
        let key = Key::Rule(subscription, rule.name.to_ascii_lowercase());
        let NewRule { name, filter, action } = rule;
        let row = RuleRow { name, filter, action, created_at: self.at, order };
        if let Some(rules) = self.topics.get_mut(&topic) {
            rules.insert((subscription, order), row.clone(), self.view.level);
        }
        self.view.insert(key, Row::Rule(Box::new(row)));
    }

    pub fn delete(&mut self, topic: EntityId, key: Key, id: RuleId) {
        self.view.delete(key);
        if let Some(rules) = self.topics.get_mut(&topic) {
            rules.remove(id);
        }
    }

    pub fn forget(&mut self, topic: EntityId, subscription: EntityId) {
        if let Some(rules) = self.topics.get_mut(&topic) {
            rules.remove_subscription(subscription);
        }
    }

    /// The rules of a topic, read if they are not in memory.
    pub fn of(&mut self, topic: EntityId) -> &TopicRules {
        if !self.topics.contains_key(&topic) {
            let rules = self.read(topic);
            self.topics.insert(topic, rules);
        }
        &self.topics[&topic]
    }

    /// What this costs depends on what is in memory, so no budget pays for it.
    fn read(&mut self, topic: EntityId) -> TopicRules {
        let cost = self.view.cost();
        let (mut rules, level) = (TopicRules::default(), self.view.level);
        for subscription in self.view.subscriptions(topic) {
            self.rules_of(subscription, &mut |rule| {
                rules.insert((subscription, rule.order), rule.clone(), level);
            });
        }
        self.view.set_cost(cost);
        rules
    }
}

/// RULE-10: what a change adds must fit; what was there before the limit stays.
pub(super) fn check_limits(
    before: RuleCounts,
    after: RuleCounts,
    topic: RuleCounts,
) -> Result<(), Refusal> {
    for (what, before, after, used, max) in [
        ("SQL filters of the topic", before.sql, after.sql, topic.sql, SQL_FILTERS_MAX as u32),
        (
            "correlation filters of the topic",
            before.correlation,
            after.correlation,
            topic.correlation,
            CORRELATION_FILTERS_MAX as u32,
        ),
        (
            "true and false filters of the topic",
            before.constant,
            after.constant,
            topic.constant,
            CORRELATION_FILTERS_MAX as u32,
        ),
    ] {
        if after > before && used > max {
            let (used, max) = (u64::from(used - 1), u64::from(max));
            return Err(Refusal::QuotaExceeded { what, used, max });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_20_quota_21_filters_of_a_topic_are_limited() {
        let none = RuleCounts::default();
        let (sql, correlation) = (SQL_FILTERS_MAX as u32, CORRELATION_FILTERS_MAX as u32);
        let of_sql = |sql| RuleCounts { sql, ..none };
        let correlated = |correlation| RuleCounts { correlation, ..none };
        assert_eq!(check_limits(none, of_sql(1), of_sql(sql)), Ok(()));
        assert!(check_limits(none, of_sql(1), of_sql(sql + 1)).is_err());
        assert_eq!(check_limits(none, correlated(1), correlated(correlation)), Ok(()));
        assert!(check_limits(none, correlated(1), correlated(correlation + 1)).is_err());
        // What is over the limit already can be changed and removed.
        assert_eq!(check_limits(of_sql(1), of_sql(1), of_sql(sql + 5)), Ok(()));
        assert_eq!(check_limits(of_sql(1), none, of_sql(sql + 5)), Ok(()));
    }
}
