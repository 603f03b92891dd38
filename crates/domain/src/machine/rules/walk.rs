//! A topic's rules on one message, as far as a budget goes (RULE-41): subscription by subscription, and rule by
//! rule within one. A subscription gets its copies once all its rules were looked at, so that they come in the
//! order that RULE-7 wants.

use super::{Copy, Made, RuleId, TopicRules};
use crate::machine::match_budget::MatchBudget;
use crate::{Draw, EntityId, MatchCost, MatchProgress, Subject};

/// What came of a walk.
pub(in crate::machine) struct Walked {
    /// By subscription, and within one as RULE-5 to RULE-7 have it.
    pub copies: Vec<Copy>,
    /// Where to go on, if it is not over.
    pub rest: Option<MatchProgress>,
}

impl TopicRules {
    /// From there on: at least one rule or action, and no more than fits the budget. What it takes is charged.
    pub fn walk(
        &self,
        message: &dyn Subject,
        from: MatchProgress,
        budget: &mut MatchBudget,
        draw: &mut Draw<'_>,
    ) -> Walked {
        let (cost, copies) = (MatchCost::default(), Vec::new());
        let mut walk =
            Walk { rules: self, message, budget, progress: from, cost, copies, steps: 0 };
        let is_over = walk.run(draw);
        let Walk { budget, progress, cost, copies, .. } = walk;
        budget.charge(cost, copies.len());
        Walked { copies, rest: (!is_over).then_some(progress) }
    }
}

struct Walk<'a> {
    rules: &'a TopicRules,
    message: &'a dyn Subject,
    budget: &'a mut MatchBudget,
    progress: MatchProgress,
    cost: MatchCost,
    copies: Vec<Copy>,
    /// Rules and actions gone through.
    steps: u64,
}

impl Walk<'_> {
    /// Whether all rules were gone through, and all copies made.
    fn run(&mut self, draw: &mut Draw<'_>) -> bool {
        let properties = self.message.properties();
        self.cost.operations(properties.len());
        self.cost
            .bytes(properties.iter().map(|(name, value)| name.len() + value.size_bytes()).sum());
        for id in self.ahead() {
            if id.0 != self.progress.subscription {
                if !self.make_copies(draw) {
                    return false;
                }
                self.progress = MatchProgress::at(id.0);
            }
            if self.is_spent() {
                self.progress.order = Some(id.1);
                return false;
            }
            self.look(id, draw);
        }
        self.make_copies(draw)
    }

    /// What there is to look at, in order: of correlation filters those alone that a look-up finds.
    fn ahead(&mut self) -> Vec<RuleId> {
        let found = self.rules.correlated.candidates(self.message, &mut self.cost);
        let MatchProgress { subscription, order, .. } = self.progress;
        let from = match order {
            Some(order) => (subscription, order),
            None => (EntityId(subscription.0.saturating_add(1)), 0),
        };
        let always = self.rules.always.range(from..).copied();
        let tried = self.rules.tried.range(from..).map(|(id, _)| *id);
        let found = found.into_iter().filter(|id| *id >= from);
        let mut ahead: Vec<RuleId> = always.chain(tried).chain(found).collect();
        ahead.sort_unstable();
        ahead
    }

    fn is_spent(&self) -> bool {
        self.steps > 0 && !self.budget.affords(self.cost, self.copies.len())
    }

    fn look(&mut self, id: RuleId, draw: &mut Draw<'_>) {
        self.steps += 1;
        self.cost.operations(1);
        let Some(known) = self.rules.rules.get(&id) else { return };
        let taken = match self.rules.tried.get(&id) {
            Some(Ok(filter)) => filter.matches(self.message, draw, &mut self.cost),
            Some(Err(error)) => Err(error.clone()),
            None if self.rules.always.contains(&id) => Ok(true),
            None => Ok(self.rules.correlated.confirms(&id, self.message, &mut self.cost)),
        };
        let progress = &mut self.progress;
        match (taken, &known.action) {
            (Ok(false), _) => (),
            (Ok(true), None) => progress.plain = true,
            (Ok(true), Some(_)) => progress.actions.push(id.1),
            // However many filters of a subscription fail, it gets the message once (RULE-20).
            (Err(error), _) => drop(progress.failed.get_or_insert(error)),
        }
    }

    /// The copies of the subscription under way, all of whose rules were looked at; whether that was all.
    fn make_copies(&mut self, draw: &mut Draw<'_>) -> bool {
        let progress = &mut self.progress;
        let (subscription, copies) = (progress.subscription, &mut self.copies);
        progress.order = None;
        if std::mem::take(&mut progress.plain) {
            copies.push(Copy { subscription, made: Made::Plain });
        }
        if let Some(error) = progress.failed.take() {
            copies.push(Copy { subscription, made: Made::Failed(error) });
        }
        let mut actions = std::mem::take(&mut progress.actions).into_iter();
        while !actions.as_slice().is_empty() {
            if self.is_spent() {
                self.progress.actions = actions.collect();
                return false;
            }
            let order = actions.next();
            order.into_iter().for_each(|order| self.act((subscription, order), draw));
        }
        true
    }

    /// Nothing comes of a rule that was removed meanwhile.
    fn act(&mut self, id: RuleId, draw: &mut Draw<'_>) {
        self.steps += 1;
        self.cost.operations(1);
        let Some(known) = self.rules.rules.get(&id) else { return };
        let made = match &known.action {
            None => return,
            Some(Ok(action)) => match action.run(self.message, draw, &mut self.cost) {
                Ok(change) => Made::Changed(known.name.clone(), Box::new(change)),
                Err(error) => Made::Failed(error),
            },
            Some(Err(error)) => Made::Failed(error.clone()),
        };
        self.copies.push(Copy { subscription: id.0, made });
    }
}
