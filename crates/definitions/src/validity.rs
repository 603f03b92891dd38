//! What a cluster would refuse, told before it is asked: names, values, rules, and names that are there
//! twice. The checks are the broker's own.

use std::collections::BTreeMap;

use domain::{
    AuthorizationRule, Described, NewRule, Patch, QueueProperties, Refusal, RuleError,
    SubscriptionProperties, TopicProperties, validate,
};

use crate::{
    Definitions, EntityDefinition, EntityPath, Problem, Properties, SubscriptionDefinition,
};

/// Entities of a kind, as their checks and steps have them.
pub(crate) trait Planned: Described {
    fn check_name(name: &str) -> Result<(), Refusal>;

    /// ENT-3, ENT-4.
    fn check(&self) -> Result<(), Refusal>;

    /// ENT-5, FWD-1: of one that is there, from `self` to `new`.
    fn check_change(&self, new: &Self) -> Result<(), Refusal>;

    fn authorization_rules(&mut self) -> &mut [AuthorizationRule];

    fn wrap(patch: Patch<Self>) -> Properties;
}

impl Planned for QueueProperties {
    fn check_name(name: &str) -> Result<(), Refusal> {
        validate::queue_name(name)
    }

    fn check(&self) -> Result<(), Refusal> {
        validate::queue_properties(self)
    }

    fn check_change(&self, new: &QueueProperties) -> Result<(), Refusal> {
        validate::forwarding_of_sessions(self, new)
    }

    fn authorization_rules(&mut self) -> &mut [AuthorizationRule] {
        &mut self.authorization_rules
    }

    fn wrap(patch: Patch<QueueProperties>) -> Properties {
        Properties::Queue(patch)
    }
}

impl Planned for TopicProperties {
    fn check_name(name: &str) -> Result<(), Refusal> {
        validate::queue_name(name)
    }

    fn check(&self) -> Result<(), Refusal> {
        validate::topic_properties(self)
    }

    fn check_change(&self, _: &TopicProperties) -> Result<(), Refusal> {
        Ok(())
    }

    fn authorization_rules(&mut self) -> &mut [AuthorizationRule] {
        &mut self.authorization_rules
    }

    fn wrap(patch: Patch<TopicProperties>) -> Properties {
        Properties::Topic(patch)
    }
}

impl Planned for SubscriptionProperties {
    fn check_name(name: &str) -> Result<(), Refusal> {
        validate::subscription_name(name)
    }

    fn check(&self) -> Result<(), Refusal> {
        validate::subscription_properties(self)
    }

    fn check_change(&self, _: &SubscriptionProperties) -> Result<(), Refusal> {
        Ok(())
    }

    fn authorization_rules(&mut self) -> &mut [AuthorizationRule] {
        &mut []
    }

    fn wrap(patch: Patch<SubscriptionProperties>) -> Properties {
        Properties::Subscription(patch)
    }
}

/// Whether what an entity is to be is allowed: keys that are not given are drawn later, or are there.
pub(crate) fn check<P: Planned>(properties: &P) -> Result<(), Refusal> {
    let mut properties = properties.clone();
    for rule in properties.authorization_rules() {
        for key in [&mut rule.primary_key, &mut rule.secondary_key] {
            if key.is_empty() {
                key.push('x');
            }
        }
    }
    properties.check()
}

/// Everything wrong with definitions by themselves, whatever a cluster has.
pub fn problems(of: &Definitions) -> Vec<Problem> {
    let mut problems = Vec::new();
    of.queues.iter().for_each(|queue| problems.extend(wrong_with(queue)));
    of.topics.iter().for_each(|topic| problems.extend(wrong_with(topic)));
    for subscription in &of.subscriptions {
        problems.extend(wrong_with(&subscription.entity));
        problems.extend(wrong_rules(subscription));
    }
    problems.extend(names_twice(of));
    problems
}

fn wrong_with<P: Planned>(of: &EntityDefinition<P>) -> Vec<Problem> {
    let name = P::check_name(&of.name);
    // What is there already is checked once that is known.
    let properties = if of.is_reference { Ok(()) } else { check(&of.at_creation().created()) };
    let refusals = [name, properties].into_iter().filter_map(Result::err);
    refusals.map(|refusal| Problem::new(place(&of.at, &of.name), refusal)).collect()
}

/// Where it stands, and which it is.
pub(crate) fn place(at: &str, name: &str) -> String {
    format!("{at} ({name})")
}

fn wrong_rules(of: &SubscriptionDefinition) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for rule in of.rules.iter().flatten() {
        let at = place(&rule.at, &rule.rule.name);
        if let Err(refusal) = check_rule(&rule.rule) {
            problems.push(Problem::new(&at, refusal));
        }
        if let Some(first) = names.insert(rule.rule.name.to_ascii_lowercase(), &rule.at) {
            problems.push(Problem::new(
                at,
                format!("a rule of this name is listed before, at {first}"),
            ));
        }
    }
    problems
}

/// RULE-21.
/// # Errors
/// Its name, its filter or its action is none.
pub fn check_rule(rule: &NewRule) -> Result<(), Refusal> {
    validate::rule_name(&rule.name)?;
    let refused =
        |error: RuleError| Refusal::InvalidRule { exception: error.name(), why: error.to_string() };
    rule.filter.compile().map_err(refused)?;
    rule.action.as_ref().map_or(Ok(()), |action| action.compile_action().map(drop).map_err(refused))
}

/// ENT-2: each name once, of queues and topics together.
fn names_twice(of: &Definitions) -> Vec<Problem> {
    let queues = of.queues.iter().map(|queue| (&queue.at, EntityPath::queue(&queue.name)));
    // One namespace, so one kind.
    let topics = of.topics.iter().map(|topic| (&topic.at, EntityPath::queue(&topic.name)));
    let subscriptions = of.subscriptions.iter().map(|one| (&one.entity.at, one.path()));
    let mut seen: BTreeMap<EntityPath, &String> = BTreeMap::new();
    let mut problems = Vec::new();
    for (at, path) in queues.chain(topics).chain(subscriptions) {
        let name = path.path();
        if let Some(first) = seen.insert(path, at) {
            let why = format!(
                "'{name}' is listed before, at {first}; name it otherwise, or list it once"
            );
            problems.push(Problem::new(at, why));
        }
    }
    problems
}
