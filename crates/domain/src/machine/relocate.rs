//! `Depart`, `Admit` and `Leave`: an entity goes from one group to another, with all it has.

use crate::machine::Step;
use crate::machine::sweep::ranges;
use crate::machine::view::View;
use crate::{
    Admit, Depart, Effect, EntityId, EntityKind, HiddenEntity, Key, Leave, Outcome, PRODUCER_KEPT,
    Refusal, RelocationCommand, RelocationRow, RelocationState, Row, Rows, SWEEPING,
    SequenceNumber,
};

const WHAT: &str = "relocation";

fn unfit(why: String) -> Refusal {
    Refusal::Argument { what: WHAT, why }
}

/// The ranges of all that an entity has, beside its description and its state, and beside what came of
/// shipments to it ([`arrivals_range`](crate::arrivals_range)).
pub fn entity_ranges(entity: EntityId) -> Vec<(Key, Key)> {
    let unmatched = |entity| Key::Unmatched(entity, SequenceNumber::MIN);
    let of_topics = (unmatched(entity), unmatched(EntityId(entity.0 + 1)));
    ranges(entity).into_iter().chain([of_topics]).collect()
}

/// Why there is no such entity here.
pub(super) fn missing<R: Rows>(view: &mut View<R>, id: EntityId) -> Refusal {
    view.relocation(id).map_or(Refusal::StaleRoute { entity: id }, |row| row.refusal(id))
}

impl RelocationCommand {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        match self {
            RelocationCommand::Depart(depart) => depart.apply(step),
            RelocationCommand::Admit(admit) => admit.apply(step),
            RelocationCommand::Leave(leave) => Ok(leave.apply(step)),
        }
    }
}

impl Depart {
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let Depart { entity, to } = self;
        if step.open(entity)?.row.kind() == EntityKind::Subscription {
            return Err(unfit("a subscription is where its topic is; move that".to_owned()));
        }
        if step.is_sweeping_of(entity) {
            return Err(SWEEPING);
        }
        // What this entry has done is told of while the topic is here.
        step.charge_topics();
        let number = step.relocation(entity).map_or(0, |row| row.number) + 1;
        for id in step.with_subscriptions(entity) {
            step.open(id)?.refresh_marks();
            let Some(gone) = step.machine.entities.remove(&id) else { continue };
            if !gone.born {
                step.view.delete(Key::Entity(id));
                step.view.delete(Key::EntityState(id));
            }
            step.tallies.push((id, gone.tally));
            step.view.forget_traces(id);
            let hidden = HiddenEntity { row: gone.row, state: gone.state };
            step.set_relocation(id, number, RelocationState::Departing { to, hidden });
            step.effects.push(Effect::Deleted { entity: id });
        }
        step.machine.topics.remove(&entity);
        step.effects.push(Effect::RelocationWanted);
        Ok(Outcome::Done)
    }
}

impl Admit {
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let Admit { entity, number, at, cut, rows, is_last } = self;
        match step.relocation(entity) {
            Some(RelocationRow { number: known, state: RelocationState::Arriving { .. } })
                if known == number => {}
            // To where it comes from: nobody would have it in the end.
            Some(RelocationRow { number: known, state: RelocationState::Departing { .. } })
                if known == number =>
            {
                return Err(unfit("it is here, and departs".to_owned()));
            }
            // It comes back before it was given up here: its rows of before would be taken for those that come.
            Some(RelocationRow { number: known, state: RelocationState::Departing { .. } })
                if known < number =>
            {
                return Err(Refusal::Relocated { entity, to: None });
            }
            Some(known) if known.number >= number => return Ok(Outcome::Done),
            _ if step.open(entity).is_ok() => {
                return Err(unfit("the entity is here".to_owned()));
            }
            _ => {
                let opens = |(key, _): &(Key, Row)| *key == Key::Relocation(entity);
                if !rows.iter().any(opens) {
                    return Err(unfit("its first part did not come".to_owned()));
                }
            }
        }
        for (key, row) in &rows {
            let Some(of) = key.entity() else {
                return Err(unfit(format!("{key:?} is no row of an entity")));
            };
            let Row::Relocation(row) = row else { continue };
            if !matches!(row.state, RelocationState::Arriving { .. }) || row.number != number {
                return Err(unfit(format!("entity {} does not arrive", of.0)));
            }
            // What it had here the last time would be swept with what comes.
            if step.view.contains(&Key::Sweep(of)) {
                return Err(Refusal::Relocated { entity, to: None });
            }
        }
        if is_last && cut != step.meta.cut {
            return Err(Refusal::OtherCut { cut: step.meta.cut });
        }
        for (key, row) in rows {
            step.view.put(key, row);
        }
        if is_last {
            step.meta.last_at = step.meta.last_at.max(at);
            step.reveal(entity, number)?;
        }
        Ok(Outcome::Done)
    }
}

impl Leave {
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let Leave { entity, number } = self;
        let Some(RelocationRow { number: known, state: RelocationState::Departing { to, .. } }) =
            step.relocation(entity)
        else {
            return Outcome::Done;
        };
        if known != number {
            return Outcome::Done;
        }
        for id in step.with_subscriptions(entity) {
            step.set_relocation(id, number, RelocationState::Gone { to });
            let topic = (id != entity).then_some(entity);
            step.view.insert(Key::Sweep(id), Row::Sweep { topic });
        }
        step.effects.push(Effect::SweepWanted);
        Outcome::Done
    }
}

impl<R: Rows> Step<'_, R> {
    /// Refuses where the entity is on its way, or elsewhere: what would be done without one is not.
    pub(super) fn check_not_relocated(&mut self, id: EntityId) -> Result<(), Refusal> {
        match missing(&mut self.view, id) {
            relocated @ Refusal::Relocated { .. } => Err(relocated),
            _ => Ok(()),
        }
    }

    /// What a repeat is told that comes too early by what is known here of its producer: where the entity is or
    /// was meanwhile, it may have been done (SEND-8).
    pub(super) fn gap_of_repeat(&mut self, entity: Option<EntityId>, gap: Refusal) -> Refusal {
        let Some((id, row)) = entity.and_then(|id| Some((id, self.relocation(id)?))) else {
            return gap;
        };
        match row.refusal(id) {
            relocated @ Refusal::Relocated { .. } => relocated,
            _ => Refusal::PerhapsDone,
        }
    }

    /// Whether an entity came here so lately that a repeat may have been done where it was before, of which nothing
    /// is known here (SEND-8).
    pub(super) fn came_lately(&mut self, id: EntityId) -> bool {
        let came_at = match self.relocation(id).map(|row| row.state) {
            Some(RelocationState::ArrivedAt { at }) => at,
            _ => return false,
        };
        came_at.plus(PRODUCER_KEPT) > self.at
    }

    fn relocation(&mut self, id: EntityId) -> Option<RelocationRow> {
        self.view.relocation(id).map(|row| *row)
    }

    fn set_relocation(&mut self, id: EntityId, number: u64, state: RelocationState) {
        let row = Box::new(RelocationRow { number, state });
        self.view.put(Key::Relocation(id), Row::Relocation(row));
    }

    /// A queue or a topic, and a topic's subscriptions.
    fn with_subscriptions(&mut self, entity: EntityId) -> Vec<EntityId> {
        let mut all = vec![entity];
        all.extend(self.view.subscriptions(entity));
        all
    }

    fn is_sweeping_of(&mut self, topic: EntityId) -> bool {
        let (from, to) = (Key::Sweep(EntityId(0)), Key::Sweep(EntityId(u64::MAX)));
        let mut found = false;
        self.view.scan(&from, &to, &mut |_, row| {
            found |= matches!(row, Row::Sweep { topic: Some(of) } if *of == topic);
            match found {
                true => std::ops::ControlFlow::Break(()),
                false => std::ops::ControlFlow::Continue(()),
            }
        });
        found
    }

    /// All that belongs to it is here: so is the entity, from here on.
    fn reveal(&mut self, entity: EntityId, number: u64) -> Result<(), Refusal> {
        let mut revealed = Vec::new();
        for id in self.with_subscriptions(entity) {
            match self.relocation(id) {
                Some(RelocationRow { state: RelocationState::Arriving { hidden }, .. }) => {
                    revealed.push((id, hidden));
                }
                _ => return Err(unfit(format!("entity {} did not come", id.0))),
            }
        }
        for (id, HiddenEntity { row, state }) in revealed {
            self.view.insert(Key::Entity(id), Row::Entity(row));
            self.view.insert(Key::EntityState(id), Row::EntityState(state));
            let arrived = match self.view.level.times_arrivals() {
                true => RelocationState::ArrivedAt { at: self.meta.last_at },
                false => RelocationState::Arrived,
            };
            self.set_relocation(id, number, arrived);
        }
        self.effects.push(Effect::Restored);
        Ok(())
    }
}
