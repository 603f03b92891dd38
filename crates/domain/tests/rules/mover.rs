//! What a group's leader does to bring an entity to another group, one step at a time.

use domain::{
    Admit, Command, Depart, Destination, EntityId, GroupId, Key, Leave, MemoryRows, Outcome,
    RelocationCommand, RelocationRow, RelocationState, Row,
};

use crate::support::{Group, World};

pub fn depart(entity: EntityId, to: GroupId) -> Command {
    Command::Relocate(RelocationCommand::Depart(Depart { entity, to }))
}

pub fn leave(entity: EntityId, number: u64) -> Command {
    Command::Relocate(RelocationCommand::Leave(Leave { entity, number }))
}

/// The parts that an entity on its way is brought in, of so many rows each, and the last one.
pub fn parts(rows: &MemoryRows, entity: EntityId, rows_max: usize) -> Vec<Command> {
    let subscriptions = rows.0.keys().filter_map(|key| match key {
        Key::Subscription(topic, subscription) if *topic == entity => Some(*subscription),
        _ => None,
    });
    let entities: Vec<EntityId> = [entity].into_iter().chain(subscriptions).collect();
    let number = domain::relocation(rows, entity).expect("it departs").number;
    let mut all: Vec<(Key, Row)> = Vec::new();
    for id in &entities {
        let RelocationState::Departing { hidden, .. } =
            domain::relocation(rows, *id).expect("it departs").state
        else {
            panic!("{id:?} does not depart")
        };
        let state = RelocationState::Arriving { hidden };
        let row = Box::new(RelocationRow { number, state });
        all.push((Key::Relocation(*id), Row::Relocation(row)));
    }
    let mut ranges: Vec<_> = entities.iter().flat_map(|id| domain::entity_ranges(*id)).collect();
    ranges.push(domain::arrivals_range());
    for (from, to) in ranges {
        let rows = rows
            .0
            .range(from..to)
            .filter(|(key, _)| key.entity().is_some_and(|entity| entities.contains(&entity)));
        all.extend(rows.map(|(key, row)| (key.clone(), row.clone())));
    }
    let domain::Meta { cut, last_at: at, .. } = domain::meta(rows);
    let part = |rows: Vec<(Key, Row)>, is_last| {
        let admit = Admit { entity, number, at, cut, rows, is_last };
        Command::Relocate(RelocationCommand::Admit(admit))
    };
    let mut parts: Vec<Command> =
        all.chunks(rows_max).map(|rows| part(rows.to_vec(), false)).collect();
    parts.push(part(Vec::new(), true));
    parts
}

impl World {
    /// The name is on another group by now.
    pub fn relocated(&mut self, name: &str, to: Destination) {
        self.ids.insert(name.to_owned(), to);
    }
}

impl Group {
    /// Has an entity go to a group that has none, whose number is 2, and takes that group's place; without
    /// effect where it is not there.
    pub fn relocate(&mut self, entity: EntityId) {
        if !self.rows.0.contains_key(&Key::Entity(entity)) {
            return;
        }
        assert_eq!(self.apply(depart(entity, GroupId(2))), Outcome::Done);
        let mut new = Group::empty();
        new.now = self.now;
        for part in parts(&self.rows, entity, 3) {
            assert_eq!(new.apply(part), Outcome::Done);
        }
        let number = domain::relocation(&self.rows, entity).expect("it departs").number;
        assert_eq!(self.apply(leave(entity, number)), Outcome::Done);
        while let Outcome::Fired(fired) = self.apply(Command::Sweep)
            && fired.more
        {}
        let left = self.rows.0.keys().filter(|key| {
            key.entity().is_some() && !matches!(key, Key::Relocation(_) | Key::Arrival(..))
        });
        assert_eq!(left.collect::<Vec<_>>(), Vec::<&Key>::new(), "left behind");
        *self = new;
    }
}
