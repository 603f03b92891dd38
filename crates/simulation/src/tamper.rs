//! For bugs planted in what the core does. The core is as it is: what it is asked, or what it wrote,
//! is changed on its way.

use std::borrow::Cow;

use domain::key_map::KeyMap;
use domain::{
    Arrive, Command, Disposition, EntityId, Entry, ForwardCommand, Key, MemoryRows, QueueId,
    ReleaseSession, Row, SessionCommand, SessionToken, Timestamp, Write,
};

use crate::bug::Bug;

/// For `GrantsSessionTwice`: whoever asks for a session by its id gets it, its holder's lock ends. For
/// `ForgetsArrivals`: see [`from_nobody_known`]. Returns how many commands are before each one of the entry.
pub fn asked(bug: Option<Bug>, rows: &MemoryRows, entry: &Entry) -> (Entry, Vec<usize>) {
    let mut asked = Entry { commands: Vec::new(), ..entry.clone() };
    let mut before = Vec::new();
    for command in &entry.commands {
        let released = match bug {
            Some(Bug::GrantsSessionTwice) => release(rows, command, entry.at),
            _ => None,
        };
        before.push(usize::from(released.is_some()));
        asked.commands.extend(released);
        let changed = match bug {
            Some(Bug::ForgetsArrivals) => from_nobody_known(command, entry.at),
            Some(Bug::SettlesWithheld) => completing(command),
            _ => None,
        };
        asked.commands.push(changed.unwrap_or_else(|| command.clone()));
    }
    (asked, before)
}

/// For `SettlesWithheld`.
fn completing(command: &Command) -> Option<Command> {
    let mut command = command.clone();
    for settlement in command.settles_mut().flat_map(|settle| &mut settle.settlements) {
        if settlement.disposition == Disposition::Withheld {
            settlement.disposition = Disposition::Complete;
        }
    }
    Some(command)
}

/// For `ForgetsArrivals`: the shipment seems to come from somebody new each time.
fn from_nobody_known(command: &Command, at: Timestamp) -> Option<Command> {
    let Command::Forward(ForwardCommand::Arrive(arrive)) = command else { return None };
    let source = QueueId { entity: EntityId(u64::MAX - at.0), ..arrive.source };
    let arrive = Arrive { source, settled_to: 0, follows: 0, ..arrive.clone() };
    Some(Command::Forward(ForwardCommand::Arrive(arrive)))
}

fn release(rows: &MemoryRows, command: &Command, at: Timestamp) -> Option<Command> {
    let Command::Session(SessionCommand::Accept(accept)) = command else { return None };
    let (entity, session) = (accept.queue.entity, accept.session.clone()?);
    let Some(Row::Session(row)) = rows.0.get(&Key::Session(entity, session.clone())) else {
        return None;
    };
    let lock = row.lock.filter(|lock| at < lock.until)?;
    let token = SessionToken { session, nonce: lock.nonce };
    let release = ReleaseSession { origin: None, entity, token };
    Some(Command::Session(SessionCommand::Release(release)))
}

/// For `LosesCopy` and `DoublesCopy`: one of the rows of some publishes is not written, or is written
/// under two numbers. For `ForgetsProgress`: a message that goes on with its rules stays where it was.
pub fn written(bug: Option<Bug>, writes: &mut KeyMap<Write>) {
    if bug == Some(Bug::ForgetsProgress) {
        let goes_on = |(key, write): &(Cow<'_, Key>, &Write)| {
            matches!((&**key, write), (Key::Unmatched(..), Write::Replace(_)))
        };
        let found = writes.iter().find(goes_on).map(|(key, _)| key.into_owned());
        found.iter().for_each(|key| drop(writes.remove(key)));
    }
    if !matches!(bug, Some(Bug::LosesCopy | Bug::DoublesCopy)) {
        return;
    }
    let is_new_copy = |(key, write): &(Cow<'_, Key>, &Write)| {
        matches!((&**key, write), (Key::Message(queue, _), Write::Insert(Row::Message(message)))
            if message.body.0 % 4 == 0
                && writes_body_of_another(writes, queue.entity, message.body))
    };
    let copy = writes.iter().find(is_new_copy);
    let Some((key, write)) = copy.map(|(key, write)| (key.into_owned(), write.clone())) else {
        return;
    };
    match (bug, key) {
        (Some(Bug::LosesCopy), key) => drop(writes.remove(&key)),
        (Some(Bug::DoublesCopy), Key::Message(queue, number)) => {
            writes.insert(Key::Message(queue, number.next()), write);
        }
        _ => (),
    }
}

/// A copy's body is written with its topic.
fn writes_body_of_another(
    writes: &KeyMap<Write>,
    entity: domain::EntityId,
    number: domain::SequenceNumber,
) -> bool {
    writes.iter().any(|(key, write)| {
        write.row().is_some()
            && matches!(*key, Key::Body(topic, body) if topic != entity && body == number)
    })
}
