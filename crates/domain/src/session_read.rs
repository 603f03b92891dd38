//! Reads of sessions: their messages (PEEK-9), their state (SESS-15), the list of them (SESS-17).
//! What is held is as of the last entry the rows hold.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bytes::Bytes;

use crate::read::{entity_row, meta, peeked};
use crate::relocation::missing;
use crate::{
    Delivery, EntityId, EntityRow, Key, PEEK_MESSAGES_MAX, QueueId, Refusal, Row, Rows,
    SequenceNumber, SessionId, SessionList, SessionRow, SessionToken, Timestamp, validate,
};

/// Most sessions one page of a list names.
pub const SESSIONS_PAGE_MAX: usize = 1000;
/// Most sessions looked at for one page.
const LOOKED_AT_MAX: usize = 10_000;

/// A session as a list names it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    pub session: SessionId,
    /// Messages that are not deferred, delivered ones included.
    pub active: u64,
    pub deferred: u64,
    /// When its state was last set, and the state's size; absent: it has none.
    pub state_changed_at: Option<Timestamp>,
    pub state_bytes: u32,
    pub locked_until: Option<Timestamp>,
}

/// Part of a list of sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPage {
    pub sessions: Vec<SessionInfo>,
    /// Where the next page begins: there may be more.
    pub next: Option<SessionId>,
}

/// SESS-17: sessions with active messages or a state, or, given an instant, those whose state was
/// set after it; in order of id, from `from` on, at most `count_max`. A page may be short and not
/// the last.
pub fn sessions(
    rows: &impl Rows,
    entity: EntityId,
    from: Option<SessionId>,
    updated_after: Option<Timestamp>,
    count_max: usize,
) -> Result<SessionPage, Refusal> {
    session_entity(rows, entity)?;
    let wanted = |row: &SessionRow| match updated_after {
        Some(after) => row.state.is_some_and(|mark| mark.changed_at > after),
        None => row.is_listed(),
    };
    let count_max = count_max.min(SESSIONS_PAGE_MAX);
    let (mut page, mut looked_at) = (SessionPage::default(), 0);
    let from = Key::Session(entity, from.unwrap_or(SessionId::first()));
    let to = Key::Session(EntityId(entity.0.saturating_add(1)), SessionId::first());
    rows.scan(&from, &to, &mut |key, row| {
        let (Key::Session(_, id), Row::Session(row)) = (key, row) else {
            return ControlFlow::Continue(());
        };
        if page.sessions.len() >= count_max || looked_at == LOOKED_AT_MAX {
            page.next = Some(id);
            return ControlFlow::Break(());
        }
        looked_at += 1;
        if wanted(&row) {
            page.sessions.push(info(id, &row));
        }
        ControlFlow::Continue(())
    });
    Ok(page)
}

fn info(session: SessionId, row: &SessionRow) -> SessionInfo {
    SessionInfo {
        session,
        active: row.active,
        deferred: row.deferred,
        state_changed_at: row.state.map(|mark| mark.changed_at),
        state_bytes: row.state.map_or(0, |mark| mark.size_bytes),
        locked_until: row.lock.map(|lock| lock.until),
    }
}

/// SESS-15: for its holder only. `None`: never set, or cleared.
pub fn session_state(
    rows: &impl Rows,
    entity: EntityId,
    token: &SessionToken,
) -> Result<Option<Bytes>, Refusal> {
    check_hold(rows, entity, token)?;
    match rows.get(&Key::SessionState(entity, token.session.clone())) {
        Some(Row::SessionState(state)) => Ok(Some(state)),
        _ => Ok(None),
    }
}

/// PEEK-9: as [`crate::peek`], of the messages of one held session.
pub fn peek_session(
    rows: &impl Rows,
    entity: EntityId,
    token: &SessionToken,
    from: SequenceNumber,
    count_max: u32,
) -> Result<Vec<Delivery>, Refusal> {
    let described = check_hold(rows, entity, token)?;
    validate::peek_count(count_max)?;
    let count_max = count_max.min(PEEK_MESSAGES_MAX) as usize;
    let mut numbers = BTreeSet::new();
    let mut collect = |key: &dyn Fn(SequenceNumber) -> Key| {
        let mut count = 0;
        rows.scan(&key(from), &key(SequenceNumber::MAX), &mut |key, _| {
            if let Key::SessionMessage(_, _, _, number) | Key::SessionHeld(_, _, number) = key {
                numbers.insert(number);
            }
            count += 1;
            if count < count_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    };
    for list in SessionList::ALL {
        collect(&|number| Key::SessionMessage(entity, token.session.clone(), list, number));
    }
    collect(&|number| Key::SessionHeld(entity, token.session.clone(), number));
    let queue = QueueId::main(entity);
    let shown = |number| peeked(rows, &described, queue, number);
    Ok(numbers.into_iter().take(count_max).filter_map(shown).collect())
}

/// A session's messages under delivery to one receiver's earlier epochs.
pub fn session_deliveries(
    rows: &impl Rows,
    entity: EntityId,
    session: &SessionId,
) -> Vec<(SequenceNumber, crate::HeldRow)> {
    let mut held = Vec::new();
    let from = Key::SessionHeld(entity, session.clone(), SequenceNumber::MIN);
    let to = Key::SessionHeld(entity, session.clone(), SequenceNumber::MAX);
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::SessionHeld(_, _, number), Row::SessionHeld(row)) = (key, row) {
            held.push((number, row));
        }
        ControlFlow::Continue(())
    });
    held
}

/// The holds of an entity's sessions, lapsed ones included.
pub fn session_holds(
    rows: &impl Rows,
    entity: EntityId,
) -> Vec<(SessionToken, crate::SessionLock)> {
    let mut holds = Vec::new();
    let from = Key::SessionLocked(entity, SessionId::first());
    let to = Key::SessionLocked(EntityId(entity.0.saturating_add(1)), SessionId::first());
    rows.scan(&from, &to, &mut |key, _| {
        if let Key::SessionLocked(_, session) = key
            && let Some(row) = session_row(rows, entity, &session)
            && let Some(lock) = row.lock
        {
            holds.push((SessionToken { session, nonce: lock.nonce }, lock));
        }
        ControlFlow::Continue(())
    });
    holds
}

/// What a group remembers of one session.
pub fn session_row(
    rows: &impl Rows,
    entity: EntityId,
    session: &SessionId,
) -> Option<Box<SessionRow>> {
    match rows.get(&Key::Session(entity, session.clone())) {
        Some(Row::Session(row)) => Some(row),
        _ => None,
    }
}

fn session_entity(rows: &impl Rows, entity: EntityId) -> Result<EntityRow, Refusal> {
    let Some(row) = entity_row(rows, entity) else { return Err(missing(rows, entity)) };
    let status = row.properties.status;
    if status.refuses_receive() {
        return Err(Refusal::EntityDisabled { status: status.as_str() });
    }
    if !row.properties.requires_session {
        let why = "this entity has no sessions; it was created without them";
        return Err(Refusal::InvalidOperation { why });
    }
    Ok(row)
}

/// SESS-13. The rows know no later instant than their last entry's.
fn check_hold(
    rows: &impl Rows,
    entity: EntityId,
    token: &SessionToken,
) -> Result<EntityRow, Refusal> {
    let row = session_entity(rows, entity)?;
    let lock = session_row(rows, entity, &token.session).and_then(|row| row.lock);
    let now = meta(rows).last_at;
    match lock.is_some_and(|lock| lock.nonce == token.nonce && now < lock.until) {
        true => Ok(row),
        false => Err(Refusal::SessionLockLost { session: Some(token.session.clone()) }),
    }
}
