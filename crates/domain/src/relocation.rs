//! Relocation: an entity moves to another group with all it has, while it is used.
//!
//! The group that has it lets it go in one entry ([`Depart`]): from then on nothing reaches it there,
//! and its rows are as they are. Its leader brings them to the other group in parts ([`Admit`]), which
//! knows the entity from the last part on, in one entry as well. Then the catalog is told, and the group
//! that had it removes what it has left ([`Leave`]). Every step may be repeated, by this leader or the
//! next. Who asks either group meanwhile is told to ask again, or where ([`Refusal::Relocated`]); so
//! nothing that was asked is done twice or gets lost.
//!
//! A subscription moves with its topic only.

use crate::{
    EntityId, EntityRow, EntityState, GroupId, Key, QueueId, Refusal, Row, Rows, Timestamp,
};

/// What is asked of the two groups of a relocation.
#[derive(Clone, Debug, PartialEq)]
pub enum RelocationCommand {
    Depart(Depart),
    Admit(Admit),
    Leave(Leave),
}

/// To the group that has a queue or a topic: lets it go to another group. Refused for a subscription,
/// and for a topic of which deleted subscriptions are not swept yet ([`SWEEPING`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depart {
    pub entity: EntityId,
    pub to: GroupId,
}

/// To the group where it goes: some of its rows. In the first part are the [`Row::Relocation`] of the
/// entity, and of a topic those of its subscriptions.
#[derive(Clone, Debug, PartialEq)]
pub struct Admit {
    pub entity: EntityId,
    /// The number of the relocation ([`RelocationRow::number`]). Without effect here once this one, or a
    /// later one, is complete.
    pub number: u64,
    /// The last time stamp of the group where it comes from: time does not run back for the entity (TIME-3).
    pub at: Timestamp,
    /// The last cut of the group where it comes from. The last part is taken only where this is the last
    /// one here as well (see [`ForwardCommand::ArriveBehind`](crate::ForwardCommand::ArriveBehind)):
    /// so a cut of both groups has the entity once.
    pub cut: u64,
    pub rows: Vec<(Key, Row)>,
    /// With these all are here, and the entity is.
    pub is_last: bool,
}

/// To the group that had it: the other one has it, and the catalog knows. A repeat changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    pub entity: EntityId,
    pub number: u64,
}

/// A topic's deleted subscriptions share its messages' contents until they are swept.
pub const SWEEPING: Refusal = Refusal::InvalidOperation {
    why: "subscriptions of this topic were deleted and are being removed; move it when that has ended",
};

/// What a group knows of an entity that came or goes. Kept for ever: what is late, and meant for the
/// entity, finds out where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct RelocationRow {
    /// Counts the relocations of the entity; the last one that this group had a part in.
    pub number: u64,
    pub state: RelocationState,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RelocationState {
    /// On its way to another group. Its other rows are still here, and change no more.
    Departing { to: GroupId, hidden: HiddenEntity },
    /// On its way here. Some of its other rows are here.
    Arriving { hidden: HiddenEntity },
    /// It came here. It may be deleted since.
    Arrived,
    /// As `Arrived`, then: from the feature level on that knows of it.
    ArrivedAt { at: Timestamp },
    /// It went to another group.
    Gone { to: GroupId },
}

/// What makes an entity one that a group has, where that is to be none for now.
#[derive(Clone, Debug, PartialEq)]
pub struct HiddenEntity {
    pub row: Box<EntityRow>,
    pub state: Box<EntityState>,
}

impl RelocationRow {
    /// What is told to whoever asks for the entity here, where that is not.
    pub(crate) fn refusal(&self, entity: EntityId) -> Refusal {
        match self.state {
            RelocationState::Departing { .. } | RelocationState::Arriving { .. } => {
                Refusal::Relocated { entity, to: None }
            }
            RelocationState::Gone { to } => Refusal::Relocated { entity, to: Some(to) },
            RelocationState::Arrived | RelocationState::ArrivedAt { .. } => {
                Refusal::StaleRoute { entity }
            }
        }
    }
}

/// What a group knows of an entity's relocation.
pub fn relocation(rows: &impl Rows, entity: EntityId) -> Option<RelocationRow> {
    match rows.get(&Key::Relocation(entity)) {
        Some(Row::Relocation(row)) => Some(*row),
        _ => None,
    }
}

/// Why an entity is not here.
pub fn missing(rows: &impl Rows, entity: EntityId) -> Refusal {
    relocation(rows, entity).map_or(Refusal::StaleRoute { entity }, |row| row.refusal(entity))
}

/// What came of shipments to any entity.
pub fn arrivals_range() -> (Key, Key) {
    let arrival = |source: u64| Key::Arrival(QueueId::main(EntityId(source)), EntityId(0));
    (arrival(0), arrival(u64::MAX))
}

/// The queues and topics that are on their way from a group, each with where to: of a topic not its
/// subscriptions.
pub fn departures(rows: &impl Rows) -> Vec<(EntityId, RelocationRow)> {
    let mut departures = Vec::new();
    let (from, to) = (Key::Relocation(EntityId(0)), Key::Relocation(EntityId(u64::MAX)));
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::Relocation(entity), Row::Relocation(row)) = (key, row)
            && let RelocationState::Departing { hidden, .. } = &row.state
            && hidden.row.topic().is_none()
        {
            departures.push((entity, *row));
        }
        std::ops::ControlFlow::Continue(())
    });
    departures
}
