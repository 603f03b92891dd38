//! The plan: the steps that make a cluster what definitions say, in an order in which each can be done,
//! or everything that stands in the way.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    DEFAULT_RULE, NewRule, Patch, PropertyType, QueueProperties, RuleFilter, TopicProperties,
};

use crate::definition::destinations;
use crate::difference::Difference;
use crate::validity::{self, Planned};
use crate::{
    Change, Definitions, EntityDefinition, EntityPath, Found, Lists, Problem, Step,
    SubscriptionDefinition, difference, order, rule, word,
};

/// What a plan may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The entities that the definitions do not name go.
    pub prune: bool,
    /// What is there is left as it is, and only told of.
    pub keep: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// What was not taken over, and what is as a reader may not expect.
    pub notes: Vec<String>,
    /// How what is left as it is differs: an entity a line.
    pub kept: Vec<String>,
}

impl Plan {
    /// How many entities and rules appear, change and go: `2 to create, 1 to change, 0 to delete`.
    pub fn summary(&self) -> String {
        let (mut created, mut changed, mut deleted) = (0, 0, 0);
        for step in &self.steps {
            match &step.change {
                Change::Create { .. } | Change::PutRule { replaces: None, .. } => created += 1,
                Change::Update { .. } | Change::PutRule { replaces: Some(_), .. } => changed += 1,
                Change::Delete { .. } | Change::RemoveRule { .. } => deleted += 1,
            }
        }
        format!("{created} to create, {changed} to change, {deleted} to delete")
    }

    /// Entities that go with their messages.
    pub fn losses(&self) -> impl Iterator<Item = (&EntityPath, u64)> {
        self.steps.iter().filter_map(|step| match step.change {
            Change::Delete { messages } if messages > 0 => Some((&step.entity, messages)),
            _ => None,
        })
    }
}

/// # Errors
/// Everything that stands in the way: what a cluster would refuse, what cannot be changed any more,
/// destinations and topics that are not there.
pub fn plan(wanted: &Definitions, found: &Found, options: Options) -> Result<Plan, Vec<Problem>> {
    let mut draft = Draft {
        there: There::of(&found.definitions),
        options,
        problems: validity::problems(wanted),
        notes: wanted.notes.clone(),
        kept: Vec::new(),
    };
    draft.check_kinds(wanted);
    draft.check_destinations(wanted);
    let topics = draft.topics(wanted);
    let queues = draft.queues(wanted);
    let subscriptions = draft.subscriptions(wanted);
    let deletions = if options.prune { draft.deletions(wanted, found) } else { Vec::new() };
    if !draft.problems.is_empty() {
        // What is wrong by itself is wrong as a change too, and told once.
        let mut seen = BTreeSet::new();
        draft.problems.retain(|problem| seen.insert(problem.to_string()));
        return Err(draft.problems);
    }
    let mut plan = Plan { steps: Vec::new(), notes: draft.notes, kept: draft.kept };
    for steps in [topics, queues, subscriptions, deletions] {
        plan.steps.extend(steps);
    }
    Ok(plan)
}

/// A plan while it is made, and what stands in its way.
struct Draft<'a> {
    there: There<'a>,
    options: Options,
    problems: Vec<Problem>,
    notes: Vec<String>,
    kept: Vec<String>,
}

/// What a cluster has, by names without their case.
struct There<'a> {
    queues: BTreeMap<String, &'a EntityDefinition<QueueProperties>>,
    topics: BTreeMap<String, &'a EntityDefinition<TopicProperties>>,
    subscriptions: BTreeMap<EntityPath, &'a SubscriptionDefinition>,
}

fn lower(name: &str) -> String {
    name.to_ascii_lowercase()
}

impl<'a> There<'a> {
    fn of(found: &'a Definitions) -> There<'a> {
        There {
            queues: found.queues.iter().map(|queue| (lower(&queue.name), queue)).collect(),
            topics: found.topics.iter().map(|topic| (lower(&topic.name), topic)).collect(),
            subscriptions: found.subscriptions.iter().map(|one| (one.path(), one)).collect(),
        }
    }
}

impl Draft<'_> {
    fn wrong(&mut self, at: &str, name: &str, why: String) {
        self.problems.push(Problem::new(validity::place(at, name), why));
    }

    /// Queues and topics share their names, and no one becomes another.
    fn check_kinds(&mut self, wanted: &Definitions) {
        for queue in &wanted.queues {
            if self.there.topics.contains_key(&lower(&queue.name)) {
                let why = "a topic has this name; delete it first, or name the queue otherwise"
                    .to_owned();
                self.wrong(&queue.at, &queue.name, why);
            }
        }
        for topic in &wanted.topics {
            if self.there.queues.contains_key(&lower(&topic.name)) {
                let why = "a queue has this name; delete it first, or name the topic otherwise"
                    .to_owned();
                self.wrong(&topic.at, &topic.name, why);
            }
        }
    }

    /// FWD-2. Those that are kept as they are count too: nothing goes that is still forwarded to.
    fn check_destinations(&mut self, wanted: &Definitions) {
        let queues = wanted.queues.iter().map(|queue| &queue.name);
        let named: BTreeSet<String> = queues
            .chain(wanted.topics.iter().map(|topic| &topic.name))
            .map(|name| lower(name))
            .collect();
        let is_there = |name: &str| {
            self.there.queues.contains_key(name) || self.there.topics.contains_key(name)
        };
        let mut missing = Vec::new();
        let mut check = |at: &str, name: &str, to: &str| {
            let key = lower(to);
            if named.contains(&key) || (is_there(&key) && !self.options.prune) {
                return;
            }
            let why = match is_there(&key) {
                true => format!("it forwards to '{to}', which would be pruned; list it too"),
                false => {
                    format!("there is no '{to}' to forward to; list it too, or create it first")
                }
            };
            missing.push(Problem::new(validity::place(at, name), why));
        };
        for queue in &wanted.queues {
            let there = self.there.queues.get(&lower(&queue.name));
            for to in forwards(queue, there.map(|there| &there.properties)) {
                check(&queue.at, &queue.name, &to);
            }
        }
        for one in &wanted.subscriptions {
            let there = self.there.subscriptions.get(&one.path());
            for to in forwards(&one.entity, there.map(|there| &there.entity.properties)) {
                check(&one.entity.at, &one.entity.name, &to);
            }
        }
        self.problems.extend(missing);
    }

    fn topics(&mut self, wanted: &Definitions) -> Vec<Step> {
        let mut steps = Vec::new();
        for topic in &wanted.topics {
            let there = self.there.topics.get(&lower(&topic.name)).map(|there| &there.properties);
            match there {
                Some(there) => {
                    steps.extend(self.update(EntityPath::topic(&topic.name), topic, there))
                }
                None => {
                    steps.extend(self.create(
                        EntityPath::topic(&topic.name),
                        topic,
                        topic.at_creation(),
                    ));
                }
            }
        }
        steps
    }

    /// New ones in an order in which destinations come first; then what is there.
    fn queues(&mut self, wanted: &Definitions) -> Vec<Step> {
        let is_new = |queue: &&EntityDefinition<QueueProperties>| {
            !self.there.queues.contains_key(&lower(&queue.name))
        };
        let new: Vec<&EntityDefinition<QueueProperties>> =
            wanted.queues.iter().filter(is_new).collect();
        let forwards: Vec<(String, Vec<String>)> = new
            .iter()
            .map(|queue| (lower(&queue.name), queue.destinations().map(|to| lower(&to)).collect()))
            .collect();
        let (mut steps, mut later) = (Vec::new(), Vec::new());
        for turn in order::creation(&forwards) {
            let queue = new[turn.index];
            let path = EntityPath::queue(&queue.name);
            let patch = queue.at_creation();
            if !turn.is_split {
                steps.extend(self.create(path, queue, patch));
                continue;
            }
            let (to, rest) =
                patch.split(|property| matches!(property.of, PropertyType::Destination(_)));
            let (before, after) = (rest.created(), to.applied_to(rest.created()));
            if let Err(refusal) = before.check_change(&after) {
                self.wrong(&queue.at, &queue.name, refusal.to_string());
            }
            let told = to.given().map(|(property, value)| {
                format!("{} none -> {}", property.element, word::value(&value))
            });
            let differences = told.collect();
            later.push(Step {
                entity: path.clone(),
                was_there: false,
                change: Change::Update { properties: QueueProperties::wrap(to), differences },
            });
            steps.extend(self.create(path, queue, rest));
        }
        steps.extend(later);
        for queue in &wanted.queues {
            let there = self.there.queues.get(&lower(&queue.name)).map(|there| &there.properties);
            if let Some(there) = there {
                steps.extend(self.update(EntityPath::queue(&queue.name), queue, there));
            }
        }
        steps
    }

    fn subscriptions(&mut self, wanted: &Definitions) -> Vec<Step> {
        let topics: BTreeSet<String> =
            wanted.topics.iter().map(|topic| lower(&topic.name)).collect();
        let mut steps = Vec::new();
        for one in &wanted.subscriptions {
            let topic = lower(&one.topic);
            if !topics.contains(&topic) && !self.there.topics.contains_key(&topic) {
                let why =
                    format!("there is no topic '{}'; list it too, or create it first", one.topic);
                self.wrong(&one.entity.at, &one.entity.name, why);
            }
            match self.there.subscriptions.get(&one.path()).copied() {
                Some(there) => steps.extend(self.update_subscription(one, there)),
                None => steps.extend(self.create_subscription(one)),
            }
            self.note_default_rule(one);
        }
        steps
    }

    fn update_subscription(
        &mut self,
        wanted: &SubscriptionDefinition,
        there: &SubscriptionDefinition,
    ) -> Vec<Step> {
        let update = self.update(wanted.path(), &wanted.entity, &there.entity.properties);
        let mut steps: Vec<Step> = update.into_iter().collect();
        let Some(rules) = &wanted.rules else { return steps };
        let found = there.rules.as_deref().unwrap_or_default();
        let changes = difference::rules(rules, found, wanted.entity.lists == Lists::Whole);
        let step = |change| Step { entity: wanted.path(), was_there: true, change };
        let changes = changes.into_iter().map(step);
        match self.options.keep {
            true => self.kept.extend(changes.map(|step| step.to_string())),
            false => steps.extend(changes),
        }
        steps
    }

    /// With the first of its rules, so that nothing is taken that none of them takes.
    fn create_subscription(&mut self, wanted: &SubscriptionDefinition) -> Vec<Step> {
        let SubscriptionDefinition { entity, rules, .. } = wanted;
        let is_default = |rule: &NewRule| rule.name.eq_ignore_ascii_case(DEFAULT_RULE);
        let mut rules: Vec<NewRule> =
            rules.iter().flatten().map(|definition| definition.rule.clone()).collect();
        let mut removed = None;
        let first = match (&wanted.rules, entity.lists) {
            (None, _) => None,
            (Some(_), Lists::Whole) if rules.is_empty() => {
                removed = Some(DEFAULT_RULE.to_owned());
                Some(NewRule { filter: RuleFilter::False, ..NewRule::default() })
            }
            (Some(_), Lists::Whole) => Some(rules.remove(0)),
            (Some(_), Lists::Added) => match rules.iter().position(is_default) {
                Some(index) if rules.len() > 1 && rule::is_no_default(&rules[index]) => {
                    rules.remove(index);
                    Some(rules.remove(0))
                }
                Some(index) => Some(rules.remove(index)),
                None => None,
            },
        };
        let is_plain = first.as_ref().is_some_and(|rule| *rule == NewRule::default());
        let first = first.filter(|_| !is_plain).map(Box::new);
        let create = self.create(wanted.path(), entity, entity.at_creation());
        let mut steps: Vec<Step> = create.into_iter().collect();
        for step in &mut steps {
            if let Change::Create { rule, .. } = &mut step.change {
                *rule = first.clone();
            }
        }
        let puts =
            rules.into_iter().map(|rule| Change::PutRule { rule: Box::new(rule), replaces: None });
        let removals = removed.into_iter().map(|name| Change::RemoveRule { name });
        let step = |change| Step { entity: wanted.path(), was_there: false, change };
        steps.extend(puts.chain(removals).map(step));
        steps
    }

    /// What surprises whoever comes from another place: as on Service Bus, a rule that is added does not
    /// keep the default one from taking everything.
    fn note_default_rule(&mut self, wanted: &SubscriptionDefinition) {
        let Some(rules) = wanted.rules.as_ref().filter(|rules| !rules.is_empty()) else { return };
        let names_it = rules.iter().any(|one| one.rule.name.eq_ignore_ascii_case(DEFAULT_RULE));
        let there = self.there.subscriptions.get(&wanted.path());
        let has_it = there.is_none_or(|there| {
            let found = there.rules.iter().flatten();
            found.into_iter().any(|one| one.rule.name.eq_ignore_ascii_case(DEFAULT_RULE))
        });
        if wanted.entity.lists == Lists::Added && !names_it && has_it {
            self.notes.push(format!(
                "{} keeps its rule {DEFAULT_RULE} beside those listed, as on Service Bus; unless it is \
                 changed or removed, everything is taken",
                wanted.path()
            ));
        }
    }

    fn create<P: Planned>(
        &mut self,
        path: EntityPath,
        wanted: &EntityDefinition<P>,
        patch: Patch<P>,
    ) -> Option<Step> {
        if wanted.is_reference {
            let why = format!("there is no {path}, to which this belongs; create it first");
            self.wrong(&wanted.at, &wanted.name, why);
            return None;
        }
        let change = Change::Create { properties: P::wrap(patch), rule: None };
        Some(Step { entity: path, was_there: false, change })
    }

    fn update<P: Planned>(
        &mut self,
        path: EntityPath,
        wanted: &EntityDefinition<P>,
        there: &Patch<P>,
    ) -> Option<Step> {
        let Difference { patch, told, problems } = difference::of(wanted, there);
        if self.options.keep {
            if !told.is_empty() {
                self.kept.push(format!("{path}: {}", told.join(", ")));
            }
            return None;
        }
        self.problems.extend(problems);
        let change = Change::Update { properties: P::wrap(patch), differences: told.clone() };
        (!told.is_empty()).then_some(Step { entity: path, was_there: true, change })
    }

    /// Of what the definitions do not name: subscriptions, then what forwards, then the rest.
    fn deletions(&mut self, wanted: &Definitions, found: &Found) -> Vec<Step> {
        let queues: BTreeSet<String> = wanted.queues.iter().map(|one| lower(&one.name)).collect();
        let subscriptions: BTreeSet<EntityPath> =
            wanted.subscriptions.iter().map(SubscriptionDefinition::path).collect();
        let mut topics: BTreeSet<String> =
            wanted.topics.iter().map(|one| lower(&one.name)).collect();
        topics.extend(wanted.subscriptions.iter().map(|one| lower(&one.topic)));
        let delete = |entity: EntityPath| {
            let messages = found.messages.get(&entity).copied().unwrap_or_default();
            Step { entity, was_there: true, change: Change::Delete { messages } }
        };
        let mut steps = Vec::new();
        for one in &found.definitions.subscriptions {
            // With its topic go all others.
            if topics.contains(&lower(&one.topic)) && !subscriptions.contains(&one.path()) {
                steps.push(delete(one.path()));
            }
        }
        let goes =
            |queue: &&EntityDefinition<QueueProperties>| !queues.contains(&lower(&queue.name));
        let gone = found.definitions.queues.iter().filter(goes);
        let (sources, others): (Vec<_>, Vec<_>) =
            gone.partition(|queue| queue.destinations().next().is_some());
        let gone = sources.into_iter().chain(others);
        steps.extend(gone.map(|queue| delete(EntityPath::queue(&queue.name))));
        let gone = found.definitions.topics.iter();
        let gone = gone.filter(|topic| !topics.contains(&lower(&topic.name)));
        steps.extend(gone.map(|topic| delete(EntityPath::topic(&topic.name))));
        steps
    }
}

/// What an entity forwards to once it is as wanted.
fn forwards<P: Planned>(wanted: &EntityDefinition<P>, there: Option<&Patch<P>>) -> Vec<String> {
    let mut patch = there.cloned().unwrap_or_default();
    for (property, value) in wanted.properties.given() {
        patch.set(property, value);
    }
    destinations(&patch).collect()
}
