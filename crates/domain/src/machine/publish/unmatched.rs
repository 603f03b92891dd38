//! Messages that a topic has accepted and not looked at with all its rules yet (RULE-41): they wait in the order of
//! the numbers that the topic gave them, each with a share of its body, and the first is gone on with.

use super::{Made, Published, keeps_failed};
use crate::machine::Step;
use crate::machine::match_budget::MatchBudget;
use crate::machine::rules::Walked;
use crate::{
    EntityId, Fired, Key, MatchProgress, Row, Rows, SequenceNumber, Unmatched, UnmatchedRow,
};

impl Published {
    /// To the subscriptions that take it: at once as far as the entry's budget goes, and behind what waits
    /// already (RULE-15); how many copies were made.
    pub(super) fn go_out<R: Rows>(self, step: &mut Step<'_, R>) -> usize {
        let waits = step.open(self.topic).is_ok_and(|topic| topic.state.unmatched.count > 0);
        if !waits && !step.is_paced(self.topic) {
            return self.fan_out(step);
        }
        if waits || step.is_spent() {
            self.store(step, 1);
            self.enter(step, MatchProgress::default());
            return 0;
        }
        let Walked { copies, rest } = self.walk(step, MatchProgress::default());
        let (count, shares) = (copies.len(), copies.len() + usize::from(rest.is_some()));
        self.store(step, shares);
        self.copy_all(step, copies);
        if let Some(progress) = rest {
            self.enter(step, progress);
        }
        count
    }

    /// Whether a subscription takes it (RULE-9); `None` where that is not known within the entry's budget.
    pub(super) fn is_taken<R: Rows>(&self, step: &mut Step<'_, R>) -> Option<bool> {
        if !step.is_paced(self.topic) {
            return Some(!self.copies(step).is_empty());
        }
        let mut progress = MatchProgress::default();
        while step.open(self.topic).is_ok_and(|topic| topic.state.unmatched.count == 0)
            && !step.is_spent()
        {
            let Walked { copies, rest } = self.walk(step, progress);
            match rest {
                _ if !copies.is_empty() => return Some(true),
                Some(rest) => progress = rest,
                None => return Some(false),
            }
        }
        None
    }

    /// The copies that the topic's rules demand from there on, and where to go on.
    fn walk<R: Rows>(&self, step: &mut Step<'_, R>, mut from: MatchProgress) -> Walked {
        let looked = self.looked(step);
        // Deleted under way, a subscription gets nothing.
        if !step.view.contains(&Key::Subscription(self.topic, from.subscription)) {
            from = MatchProgress::at(EntityId(from.subscription.0.saturating_add(1)));
        }
        let (nonces, mut endless) = (&mut step.nonces, MatchBudget::endless());
        let budget = step.budget.as_mut().unwrap_or(&mut endless);
        let Some(rules) = step.machine.topics.get(&self.topic) else {
            return Walked { copies: Vec::new(), rest: None };
        };
        let mut walked = rules.walk(&looked, from, budget, &mut || nonces.draw());
        walked.copies.retain(|copy| match copy.made {
            Made::Plain | Made::Changed(..) => true,
            Made::Failed(_) => keeps_failed(step, copy.subscription),
        });
        walked
    }

    /// Behind what waits. Its body is stored, and one share of it counts for this.
    fn enter<R: Rows>(self, step: &mut Step<'_, R>, progress: MatchProgress) {
        let Published { topic, number, at, size_bytes, .. } = self;
        let row = UnmatchedRow {
            accepted_at: at,
            size_bytes,
            header_bytes: self.header_bytes,
            ttl: self.ttl,
            session: self.session,
            was_scheduled: self.was_scheduled,
            travel: self.travel,
            progress,
        };
        step.view.insert(Key::Unmatched(topic, number), Row::Unmatched(Box::new(row)));
        let Ok(opened) = step.open(topic) else { return };
        let unmatched = &mut opened.state.unmatched;
        if unmatched.count == 0 {
            (unmatched.head, unmatched.since) = (number, at);
        }
        unmatched.count += 1;
        unmatched.bytes += u64::from(size_bytes);
        opened.state.size_bytes += u64::from(size_bytes);
    }

    /// The next share of the work on a message that waits; how many copies were made, and whether that was all.
    fn go_on<R: Rows>(self, step: &mut Step<'_, R>, row: UnmatchedRow) -> (usize, bool) {
        let (topic, number) = (self.topic, self.number);
        let key = Key::Unmatched(topic, number);
        let Walked { copies, rest } = self.walk(step, row.progress.clone());
        let (count, is_over) = (copies.len(), rest.is_none());
        step.view.share_body(topic, number, count as u32, u32::from(is_over));
        self.copy_all(step, copies);
        match rest {
            Some(progress) => {
                let row = Row::Unmatched(Box::new(UnmatchedRow { progress, ..row }));
                step.view.replace(key, row);
            }
            None => {
                step.view.delete(key);
                let Ok(mut opened) = step.open(topic) else { return (count, true) };
                let size_bytes = u64::from(row.size_bytes);
                opened.state.unmatched.count -= 1;
                opened.state.unmatched.bytes -= size_bytes;
                opened.state.size_bytes -= size_bytes;
                // As IDLE-8 has it of what is scheduled: until now the topic was not idle.
                if opened.state.unmatched.count == 0 && opened.state.counts.scheduled == 0 {
                    opened.used_until(opened.at);
                }
            }
        }
        (count, is_over)
    }
}

impl<R: Rows> Step<'_, R> {
    /// Whether what is published to a topic is looked at within a budget.
    pub(super) fn is_paced(&mut self, topic: EntityId) -> bool {
        self.budget.is_some() && self.rules().of(topic).look_at_messages()
    }

    fn is_spent(&self) -> bool {
        self.budget.as_ref().is_some_and(MatchBudget::is_spent)
    }
}

/// Goes on with what waits at a topic, in order.
pub(in crate::machine) fn go_on<R: Rows>(
    step: &mut Step<'_, R>,
    topic: EntityId,
    count_max: usize,
    fired: &mut Fired,
) {
    let (mut done, mut copies) = (0, 0);
    while let Some((number, row)) = first(step, topic) {
        if done >= count_max || copies >= count_max || step.is_spent() {
            fired.more = true;
            return;
        }
        let content = step.view.stored_body(topic, number);
        let (made, is_over) = Published::waiting(topic, number, content, &row).go_on(step, row);
        (done, copies) = (done + 1, copies + made);
        if !is_over {
            fired.more = true;
            return;
        }
    }
}

/// The first that waits, which the topic's state names from here on.
fn first<R: Rows>(
    step: &mut Step<'_, R>,
    topic: EntityId,
) -> Option<(SequenceNumber, UnmatchedRow)> {
    let opened = step.open(topic).ok()?;
    let unmatched = &mut opened.state.unmatched;
    if unmatched.count == 0 {
        *unmatched = Unmatched::default();
        return None;
    }
    let from = Key::Unmatched(topic, unmatched.head);
    let found = opened.view.first(&from, &Key::Unmatched(topic, SequenceNumber::MAX));
    let Some((Key::Unmatched(_, number), Row::Unmatched(row))) = found else {
        panic!("a topic counts {} messages that wait, and stores none", unmatched.count)
    };
    (unmatched.head, unmatched.since) = (number, row.accepted_at);
    Some((number, *row))
}
