//! A copy of the whole cluster as of one cut, for whoever keeps it.
//!
//! Every group has an entry that the cut is behind; which ones belong together is a matter of what is under way
//! between groups, and they see to that themselves ([`domain::ForwardCommand::ArriveBehind`]). So nobody waits:
//! each group's rows are pinned on its leader's node when its entry is applied, and read from there afterwards.

mod chunks;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{
    Command, EntityId, FEATURE_LEVEL_BACKUP, GroupId, Key, Outcome, Refusal, RelocationState, Row,
    Span, Timestamp,
};
use futures::future::{join_all, try_join_all};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use wire::{GROUP_BYTES, decode_key, decode_row, encode_key};

pub use self::chunks::Chunk;
use self::chunks::Chunker;
use crate::edge::cluster::Cluster;
use crate::edge::router::{Failure, Router};
use crate::error::{Error, ErrorKind, Result, Unavailable};
use crate::exchange::CutRequest;

/// Parts read ahead of whoever takes them.
const PARTS_AHEAD: usize = 4;

/// How often it is said of what is pinned that it will be read: several times in the minute that it is kept.
const KEEP_EVERY: Duration = Duration::from_secs(15);

/// What a backup is of.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupHeader {
    pub cluster_id: u128,
    /// The cut's, higher than that of any backup before.
    pub cut: u64,
    /// By the cluster's time.
    pub taken_at: Timestamp,
    /// How far an operator had moved that.
    pub clock_offset: Span,
    pub feature_level: u32,
    /// In order of their parts: the catalog comes first.
    pub groups: Vec<GroupId>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum BackupPart {
    Chunk {
        group: GroupId,
        chunk: Chunk,
    },
    /// All of a group has come, and so much was stored in it.
    GroupEnd {
        group: GroupId,
        stored: Stored,
    },
}

/// What a group has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub entities: u64,
    /// In all states, dead letters and what is on its way to other entities included.
    pub messages: u64,
}

/// A backup under way.
pub struct Backup {
    pub header: BackupHeader,
    parts: mpsc::Receiver<Result<BackupPart>>,
}

impl Backup {
    /// `None`: that was all.
    pub async fn next(&mut self) -> Option<Result<BackupPart>> {
        self.parts.recv().await
    }
}

/// A group's rows as of the cut, on the node that has pinned them. Dropped, they are let go of.
struct PinnedGroup {
    router: Arc<Router>,
    group: GroupId,
    node: u64,
    cut: u64,
}

impl Cluster<'_> {
    /// Begins a backup: its cut is made when this returns, and nothing that is acknowledged later is in it.
    pub async fn back_up(self) -> Result<Backup> {
        let router = self.router();
        let (deadline, mut pause) = (router.deadline(), Duration::from_millis(10));
        loop {
            let (header, pinned) = self.cut().await?;
            let departing = pinned.iter().map(PinnedGroup::departing);
            let departing = try_join_all(departing).await.map_err(|why| unread(&why))?;
            let Some(name) = departing.into_iter().flatten().next() else {
                let (out, parts) = mpsc::channel(PARTS_AHEAD);
                tokio::spawn(read_all(pinned, out));
                return Ok(Backup { header, parts });
            };
            // It is in two groups in part, or in one that knows it no more: another cut has it whole.
            if !router.wait(&mut pause, deadline).await {
                let why =
                    format!("'{name}' is being moved to another group; try again when it is there");
                return Err(Error::new(Refusal::Argument { what: "backup", why }, ""));
            }
        }
    }

    /// Makes a cut of all groups, each pinned where it is led.
    async fn cut(self) -> Result<(BackupHeader, Vec<PinnedGroup>)> {
        let router = self.router();
        let cluster = self.of_level(FEATURE_LEVEL_BACKUP, "backup").await?;
        let (now, clock_offset) = self.now().await?;
        let cut = draw_cut(now, domain::meta(&router.local.catalog()).cut);
        let groups: Vec<GroupId> = (0..=cluster.data_groups).map(GroupId).collect();
        let pinned = groups.iter().map(|group| PinnedGroup::announce(router, *group, cut));
        let pinned = try_join_all(pinned).await?;
        let header = BackupHeader {
            cluster_id: cluster.cluster_id,
            cut,
            taken_at: now,
            clock_offset,
            feature_level: cluster.feature_level,
            groups: groups.clone(),
        };
        let deadline = router.deadline();
        let cuts = groups.iter().map(|group| async move {
            let answer = router.call(*group, Command::Cut { number: cut }, deadline).await;
            match answer {
                Ok(answer) if answer.outcome == Outcome::Done => Ok(()),
                Ok(_) | Err(Failure::Mendable { .. }) => {
                    let why = Unavailable::NoLeader(*group);
                    Err(Error::new(ErrorKind::Unavailable { why }, ""))
                }
                Err(Failure::Error(kind)) => Err(Error::new(kind, "")),
            }
        });
        join_all(cuts).await.into_iter().collect::<Result<()>>()?;
        Ok((header, pinned))
    }
}

fn unread(why: &str) -> Error {
    let why = format!("{why}; make the backup again");
    Error::new(Refusal::Argument { what: "backup", why }, "")
}

/// Cuts are told apart and in order: by time, and by chance where two begin at once. Clocks of nodes differ, so it is
/// seen to that none comes before the last one, without effect.
fn draw_cut(now: Timestamp, last: u64) -> u64 {
    let drawn = now.0 << 16 | u64::from(rand::random::<u16>());
    drawn.max(last.saturating_add(1))
}

async fn read_all(pinned: Vec<PinnedGroup>, out: mpsc::Sender<Result<BackupPart>>) {
    let mut pinned = VecDeque::from(pinned);
    while let Some(group) = pinned.front() {
        let read = tokio::select! {
            read = group.read(&out) => read,
            () = keep(&pinned) => return,
            () = out.closed() => return,
        };
        let part = match read {
            Ok(Some(stored)) => Ok(BackupPart::GroupEnd { group: group.group, stored }),
            // Nobody takes it any more.
            Ok(None) => return,
            Err(why) => {
                let PinnedGroup { group, node, .. } = group;
                Err(unread(&format!("group {group} cannot be read on node {node}: {why}")))
            }
        };
        let is_over = part.is_err();
        if out.send(part).await.is_err() || is_over {
            return;
        }
        pinned.pop_front();
    }
}

/// Says of what is still to be read that it will be, for as long as it is polled.
async fn keep(pinned: &VecDeque<PinnedGroup>) {
    loop {
        tokio::time::sleep(KEEP_EVERY).await;
        for group in pinned {
            // One that cannot be had any more is told of when it is read.
            drop(group.ask(CutRequest::Keep { number: group.cut }).await);
        }
    }
}

/// Ranges of keys that are backed up, each between two keys that are none of them, or to the end. What says which
/// entities there are comes first, for whoever restores to know where all else belongs. Who has sent what before is
/// left out: a client that sends again to another cluster is not known there.
fn ranges(group: GroupId) -> Vec<(Key, Option<Key>)> {
    let behind_clients = Key::Outcome(u64::MAX, u64::MAX);
    match group {
        GroupId::CATALOG => {
            vec![(behind_clients, Some(Key::Node(0))), (Key::EndedCreations(u16::MAX), None)]
        }
        _ => vec![
            (Key::Meta, Some(Key::EntityState(EntityId(0)))),
            (Key::Sweep(EntityId(0)), Some(Key::Producer(0))),
            (Key::EntityState(EntityId(0)), Some(Key::Sweep(EntityId(0)))),
            (behind_clients, None),
        ],
    }
}

impl PinnedGroup {
    /// Has a group's rows pinned when the cut comes by, on the node that leads it now.
    async fn announce(router: &Arc<Router>, group: GroupId, cut: u64) -> Result<PinnedGroup> {
        let deadline = router.deadline();
        let mut pause = Duration::from_millis(1);
        let node = loop {
            if let Some(leader) = router.leaders.of(group) {
                break leader;
            }
            if !router.wait(&mut pause, deadline).await {
                let why = Unavailable::NoLeader(group);
                return Err(Error::new(ErrorKind::Unavailable { why }, ""));
            }
        };
        let pinned = PinnedGroup { router: router.clone(), group, node, cut };
        match pinned.ask(CutRequest::Expect { number: cut }).await {
            Ok(_) => Ok(pinned),
            Err(why) => {
                let why = format!("node {node} does not pin group {group}: {why}; try again");
                Err(Error::new(Refusal::Argument { what: "backup", why }, ""))
            }
        }
    }

    async fn ask(&self, asked: CutRequest) -> std::result::Result<Option<Bytes>, String> {
        let PinnedGroup { router, group, node, .. } = self;
        match *node == router.local.id {
            true => router.local.cut(*group, asked).await,
            false => router.links.cut(*node, *group, asked).await,
        }
    }

    /// What was on its way from here when the cut came by: the name of one.
    async fn departing(&self) -> std::result::Result<Option<String>, String> {
        // The table is the last one.
        let mut after = Bytes::from(encode_key(self.group, &Key::Restoring));
        loop {
            let asked = CutRequest::Rows { number: self.cut, after: after.clone() };
            let Some(read) = self.ask(asked).await? else { return Ok(None) };
            for row in replication::rows_in(&read) {
                let (key, value) = row.ok_or("what it read is cut short")?;
                if let Some((_, key @ Key::Relocation(_))) = decode_key(key)
                    && let Ok(Row::Relocation(row)) = decode_row(&key, value)
                    && let RelocationState::Departing { hidden, .. } = row.state
                {
                    return Ok(Some(hidden.row.name));
                }
                after = read.slice_ref(key);
            }
        }
    }

    /// Hands out all that is backed up of the group. `None`: nobody takes it any more.
    async fn read(
        &self,
        out: &mpsc::Sender<Result<BackupPart>>,
    ) -> std::result::Result<Option<Stored>, String> {
        let group = self.group;
        let mut stored = Stored::default();
        for (after, to) in ranges(group) {
            let mut chunker = Chunker::default();
            let mut after = Bytes::from(encode_key(group, &after));
            let to = to.map(|to| encode_key(group, &to));
            'range: loop {
                let asked = CutRequest::Rows { number: self.cut, after: after.clone() };
                let Some(read) = self.ask(asked).await? else { break };
                for row in replication::rows_in(&read) {
                    let (key, value) = row.ok_or("what it read is cut short")?;
                    if to.as_deref().is_some_and(|to| key >= to) {
                        break 'range;
                    }
                    stored.count(key, value);
                    if let Some(chunk) = chunker.push(&key[GROUP_BYTES..], value)
                        && out.send(Ok(BackupPart::Chunk { group, chunk })).await.is_err()
                    {
                        return Ok(None);
                    }
                    after = read.slice_ref(key);
                }
            }
            if let Some(chunk) = chunker.end()
                && out.send(Ok(BackupPart::Chunk { group, chunk })).await.is_err()
            {
                return Ok(None);
            }
        }
        Ok(Some(stored))
    }
}

impl Drop for PinnedGroup {
    /// Waits for nobody: where it is not heard the node lets go by itself, a little later.
    fn drop(&mut self) {
        let PinnedGroup { router, group, node, cut } = self;
        match *node == router.local.id {
            true => router.local.replication.release_cut(*group, *cut),
            // Without a runtime the process is ending.
            false if Handle::try_current().is_ok() => router.links.release_cut(*node, *group, *cut),
            false => (),
        }
    }
}

impl Stored {
    fn count(&mut self, key: &[u8], value: &[u8]) {
        if let Some((_, key @ Key::EntityState(_))) = decode_key(key)
            && let Ok(Row::EntityState(state)) = decode_row(&key, value)
        {
            self.entities += 1;
            self.messages += state.counts.total();
        }
    }
}
