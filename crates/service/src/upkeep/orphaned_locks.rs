//! Locks whose holder is gone for certain (LOCK-28): those that hung on a connection to a node whose run has
//! ended. A group's leader releases them, uncounted: nobody can settle them, and it was not their clients that
//! failed.

use std::ops::ControlFlow;
use std::sync::Arc;

use domain::{
    Command, Disposition, EntityId, Key, LockRow, LockToken, QueueId, ReceiverId, Row, Rows,
    SequenceNumber, SessionId, SessionToken, Settle, Settlement,
};
use futures::StreamExt;
use replication::Replication;
use tokio::sync::oneshot;

use crate::exchange::{Failed, Reply, release_session};
use crate::leader::{Group, Input, settle_requests};

/// Releases under way at a time, each of many locks: others have their turns between them.
const RELEASES_MAX: usize = 4;
/// The catalog never issues it.
const LAST: EntityId = EntityId(u64::MAX);

/// Looks after a group, for ever: whenever this node comes to lead it, and whenever a run may have ended.
pub(crate) async fn release_orphaned(group: Arc<Group>, replication: Replication) {
    let mut ended_runs = replication.ended_runs();
    loop {
        tokio::select! {
            () = group.took_over.notified() => (),
            changed = ended_runs.changed() => if changed.is_err() { return },
        }
        if group.leads() {
            release(&group, &replication).await;
        }
    }
}

/// One pass. What a leader that is lost leaves, the next one finds.
async fn release(group: &Arc<Group>, replication: &Replication) {
    // What was granted before this is in the rows after it.
    if !is_asked(group, Command::Beat).await {
        return;
    }
    let (rows, runs) = (replication.rows(group.id), replication.clone());
    let is_orphan = move |of: ReceiverId| of.run().is_some_and(|run| runs.has_ended(of.node, run));
    // It reads all locks.
    let found = tokio::task::spawn_blocking(move || Orphans::find(&rows, &is_orphan)).await;
    let Ok(orphans) = found else { return }; // The runtime is going down.
    if orphans.locks.is_empty() && orphans.sessions.is_empty() {
        return;
    }
    let (locks, sessions) = (orphans.locks.len(), orphans.sessions.len());
    tracing::info!(group = %group.id, locks, sessions, "released what an ended node's clients held");
    let mut releases = futures::stream::iter(orphans.commands())
        .map(|command| is_asked(group, command))
        .buffered(RELEASES_MAX);
    while releases.next().await == Some(true) {}
}

/// Whether the group was asked; else it is led elsewhere, or overburdened. One that refuses has nothing of
/// what it was asked for any more.
async fn is_asked(group: &Group, command: Command) -> bool {
    let (reply, answer) = oneshot::channel();
    let told = group.tell(Input::Call { command, reply: Reply::Local(reply) });
    told.is_ok() && matches!(answer.await, Ok(Ok(_) | Err(Failed::Mendable { .. })))
}

/// What is held by runs that have ended.
#[derive(Debug, Default, PartialEq)]
struct Orphans {
    locks: Vec<(QueueId, LockToken)>,
    sessions: Vec<(EntityId, SessionToken)>,
}

impl Orphans {
    fn find(rows: &impl Rows, is_orphan: &impl Fn(ReceiverId) -> bool) -> Orphans {
        let mut orphans = Orphans::default();
        let from = Key::Lock(QueueId::main(EntityId(0)), SequenceNumber::MIN);
        let to = Key::Lock(QueueId::main(LAST), SequenceNumber::MIN);
        rows.scan(&from, &to, &mut |key, row| {
            if let (Key::Lock(queue, sequence), Row::Lock(LockRow { nonce, receiver, .. })) =
                (key, row)
                && is_orphan(receiver)
            {
                orphans.locks.push((queue, LockToken { sequence, nonce }));
            }
            ControlFlow::Continue(())
        });
        let from = Key::SessionLocked(EntityId(0), SessionId::first());
        let to = Key::SessionLocked(LAST, SessionId::first());
        rows.scan(&from, &to, &mut |key, _| {
            if let Key::SessionLocked(entity, session) = key
                && let Some(row) = domain::session_row(rows, entity, &session)
                && let Some(lock) = row.lock
                && is_orphan(lock.receiver)
            {
                orphans.sessions.push((entity, SessionToken { session, nonce: lock.nonce }));
            }
            ControlFlow::Continue(())
        });
        orphans
    }

    /// Uncounted releases. A lock that was settled meanwhile is passed over.
    fn commands(self) -> Vec<Command> {
        let mut commands = Vec::new();
        for of_queue in self.locks.chunk_by(|(one, _), (next, _)| one == next) {
            let queue = of_queue[0].0;
            let release =
                |(_, token): &_| Settlement { token: *token, disposition: Disposition::Release };
            for settlements in settle_requests(of_queue.iter().map(release).collect()) {
                let settle = Settle { origin: None, queue, settlements, atomic: false };
                commands.push(Command::Settle(settle));
            }
        }
        let sessions = self.sessions.into_iter();
        commands.extend(sessions.map(|(entity, token)| {
            release_session(QueueId::main(entity), token) // SESS-14.
        }));
        commands
    }
}
