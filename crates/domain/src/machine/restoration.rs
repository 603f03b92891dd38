//! How the catalog lets a backup in: into a cluster without entities, once, with nothing created beside it.

use crate::machine::members::Members;
use crate::machine::view::View;
use crate::{
    ClusterRow, DirectoryRow, Key, Outcome, Refusal, RestoringRow, Row, Rows, Span, Timestamp,
    split_subscription_path, told_name, validate,
};

const WHAT: &str = "restore";
/// A cluster's clock is behind the one that the backup was made by, by no more than this: what was stamped there
/// would be of the future here, and nothing due until then.
const BEHIND_MAX: Span = Span::from_secs(5);

/// Nothing is told of, and nothing made beside, what is half there.
pub const RESTORING: Refusal = Refusal::InvalidOperation {
    why: "a backup is being restored into this cluster; try again when that has ended",
};

fn refuse(why: String) -> Result<Outcome, Refusal> {
    Err(Refusal::Argument { what: WHAT, why })
}

/// What is half there is used by nobody.
pub(super) fn check_not_restoring<R: Rows>(view: &mut View<R>) -> Result<(), Refusal> {
    match view.contains(&Key::Restoring) {
        false => Ok(()),
        true => Err(RESTORING),
    }
}

pub(super) struct Restoration<'s, R> {
    pub at: Timestamp,
    pub members: Members<'s, R>,
}

impl<R: Rows> Restoration<'_, R> {
    pub fn begin(&mut self, restore: u128, taken_at: Timestamp) -> Result<Outcome, Refusal> {
        let cluster = self.members.formed()?;
        match self.row() {
            Some(row) if row.restore == restore => return Ok(Outcome::Done),
            Some(row) => {
                return refuse(format!(
                    "another one was begun {} s ago; if it has broken off, found a new cluster with empty \
                     directories and restore there",
                    self.at.since(row.begun_at).0 / 1000
                ));
            }
            None => (),
        }
        if cluster.next_entity > 1 {
            return refuse(
                "this cluster has entities, or had some; restore into a new one, and delete this one's data \
                 directories if they are to be used"
                    .to_owned(),
            );
        }
        if self.at.plus(BEHIND_MAX) < taken_at {
            return refuse(format!(
                "the backup was made {} s later than it is by this cluster's time; set the nodes' clocks, or, if \
                 the time was moved for a test, move this cluster's with 'mayfly clock advance'",
                taken_at.since(self.at).0.div_ceil(1000)
            ));
        }
        let row = RestoringRow { restore, begun_at: self.at, has_ended: false };
        self.members.view.insert(Key::Restoring, Row::Restoring(row));
        Ok(Outcome::Done)
    }

    /// A name that is there already is left as it is.
    pub fn name(&mut self, restore: u128, rows: Vec<DirectoryRow>) -> Result<Outcome, Refusal> {
        let cluster = self.members.formed()?;
        self.check_under_way(restore)?;
        for row in &rows {
            match split_subscription_path(told_name(&row.name)) {
                Some((topic, name)) => {
                    validate::queue_name(topic)?;
                    validate::subscription_name(name)?;
                }
                None => validate::queue_name(told_name(&row.name))?,
            }
            if !(1..=cluster.data_groups).contains(&row.group.0) {
                return refuse(format!("there is no data group {}", row.group));
            }
        }
        for row in rows {
            let key = Key::Directory(row.name.to_ascii_lowercase());
            if !self.members.view.contains(&key) {
                self.members.view.insert(key, Row::Directory(row));
            }
        }
        Ok(Outcome::Done)
    }

    pub fn end(&mut self, restore: u128, next_entity: u64) -> Result<Outcome, Refusal> {
        let cluster = self.members.formed()?;
        match self.row() {
            None => return Ok(Outcome::Done),
            Some(row) if row.restore != restore => {
                return refuse("it is not under way; begin it first".to_owned());
            }
            Some(_) => (),
        }
        let next_entity = next_entity.max(cluster.next_entity);
        let restored = ClusterRow { next_entity, ..cluster };
        self.members.view.replace(Key::Cluster, Row::Cluster(restored));
        self.members.view.delete(Key::Restoring);
        Ok(Outcome::Done)
    }

    pub fn check_under_way(&mut self, restore: u128) -> Result<(), Refusal> {
        match self.row() {
            Some(row) if row.restore == restore => Ok(()),
            Some(_) | None => refuse("it is not under way; begin it first".to_owned()).map(drop),
        }
    }

    fn row(&mut self) -> Option<RestoringRow> {
        match self.members.view.get(&Key::Restoring) {
            Some(Row::Restoring(row)) => Some(row),
            _ => None,
        }
    }
}
