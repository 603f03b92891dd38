//! `Restore`: rows of a backup become a group's.

use crate::machine::Step;
use crate::{Effect, Key, Outcome, Refusal, Restore, RestoringRow, Row, Rows};

const WHAT: &str = "restore";

/// Whether a backup is being restored into a group: what it holds is not to be acted on yet.
pub fn is_restoring(rows: &impl Rows) -> bool {
    is_under_way(rows.get(&Key::Restoring))
}

/// By the row of [`Key::Restoring`].
pub(super) fn is_under_way(row: Option<Row>) -> bool {
    matches!(row, Some(Row::Restoring(row)) if !row.has_ended)
}

impl Restore {
    /// Refused: rows that are the group's or the catalog's own, and another restore.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let Restore { restore, rows, is_last } = self;
        if let Some((key, _)) = rows.iter().find(|(key, _)| key.entity().is_none()) {
            let why = format!("{key:?} is no row of an entity");
            return Err(Refusal::Argument { what: WHAT, why });
        }
        let begun_at = match step.view.get(&Key::Restoring) {
            Some(Row::Restoring(row)) if row.restore != restore => {
                let why =
                    "another one was begun here; found a new cluster to restore into".to_owned();
                return Err(Refusal::Argument { what: WHAT, why });
            }
            Some(Row::Restoring(row)) if row.has_ended => return Ok(Outcome::Done),
            Some(Row::Restoring(row)) => row.begun_at,
            _ => step.at,
        };
        for (key, row) in rows {
            step.view.put(key, row);
        }
        if is_last {
            step.effects.push(Effect::Restored);
        }
        let row = RestoringRow { restore, begun_at, has_ended: is_last };
        step.view.put(Key::Restoring, Row::Restoring(row));
        Ok(Outcome::Done)
    }
}
