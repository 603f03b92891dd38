//! Whether this node's rows of the catalog have caught up since it started. Until then they may lack what was
//! decided while it was away: a namespace that they do not know, keys that were exchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::GroupId;

use crate::edge::router::{PAUSE_MIN, Router};
use crate::error::{Error, ErrorKind, Result, Unavailable};
use crate::exchange::Read;

/// Set once, and for good.
#[derive(Default)]
pub(crate) struct CatchUp(AtomicBool);

impl CatchUp {
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Router {
    /// Sees this node's rows of the catalog catch up with what was decided before it started.
    pub async fn catch_up(self: Arc<Router>) {
        while !self.is_ended() {
            let (deadline, mut pause) = (self.deadline(), PAUSE_MIN);
            let decided = self.decided().await;
            let has_applied =
                || decided.is_some() && self.local.replication.applied(GroupId::CATALOG) >= decided;
            loop {
                if has_applied() {
                    self.caught_up.0.store(true, Ordering::Release);
                    return;
                }
                // A leader that did not answer is asked again at once; one that did is waited for.
                if !self.wait(&mut pause, deadline).await || decided.is_none() {
                    break;
                }
            }
        }
    }

    /// What the catalog's leader has applied, as of a time at which a majority confirmed it to be that.
    async fn decided(&self) -> Option<u64> {
        // Answered by a leader only.
        let nothing = Read::Resolve { name: String::new() };
        self.read(GroupId::CATALOG, nothing, self.deadline()).await.ok()?;
        let leader = self.leaders.of(GroupId::CATALOG)?;
        if leader == self.local.id {
            return self.local.replication.applied(GroupId::CATALOG);
        }
        let report = self.links.report(leader).await?;
        let catalog = report.groups.into_iter().find(|group| group.id == GroupId::CATALOG)?;
        // Whoever came to lead meanwhile may have applied less.
        catalog.applied.filter(|_| catalog.leading)
    }

    /// Waits until this node's rows of the catalog have caught up since it started.
    ///
    /// # Errors
    /// The catalog has no leader, or none that says in time what was decided.
    pub async fn wait_caught_up(&self) -> Result<()> {
        let (deadline, mut pause) = (self.deadline(), PAUSE_MIN);
        while !self.caught_up.is_done() {
            let without = self.want_of_leader(GroupId::CATALOG);
            let is_late = || Unavailable::NoLeader(GroupId::CATALOG);
            let why = match without {
                None if self.wait(&mut pause, deadline).await => continue,
                without => without.unwrap_or_else(is_late),
            };
            return Err(Error::new(ErrorKind::Unavailable { why }, ""));
        }
        Ok(())
    }
}
