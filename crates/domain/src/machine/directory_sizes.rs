//! How much is in the directory, counted once and kept, so that a creation does not read it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::machine::view::View;
use crate::read::DIRECTORY_END;
use crate::{DirectoryRow, EntityKind, GroupId, Key, Namespace, Row, Rows, namespace_of};

#[derive(Default)]
pub(super) struct DirectorySizes {
    /// Entities of whatever kind.
    groups: BTreeMap<GroupId, u64>,
    /// Queues and topics (QUOTA-3).
    namespaces: BTreeMap<Namespace, u64>,
}

impl DirectorySizes {
    pub fn of(view: &mut View<impl Rows>) -> DirectorySizes {
        let mut sizes = DirectorySizes::default();
        let from = Key::Directory(String::new());
        let to = Key::Directory(DIRECTORY_END.to_string());
        view.scan(&from, &to, &mut |_, row| {
            if let Row::Directory(row) = row {
                sizes.add(row);
            }
            ControlFlow::Continue(())
        });
        sizes
    }

    /// The group with the fewest entities; of those, the first.
    pub fn least(&self, data_groups: u16) -> GroupId {
        let size = |group: &GroupId| self.groups.get(group).copied().unwrap_or(0);
        (1..=data_groups).map(GroupId).min_by_key(size).unwrap_or(GroupId(1))
    }

    /// Queues and topics in a namespace.
    pub fn in_namespace(&self, namespace: &Namespace) -> u64 {
        self.namespaces.get(namespace).copied().unwrap_or(0)
    }

    pub fn add(&mut self, row: &DirectoryRow) {
        *self.groups.entry(row.group).or_default() += 1;
        if row.kind != EntityKind::Subscription {
            *self.namespaces.entry(namespace_of(&row.name)).or_default() += 1;
        }
    }

    pub fn remove(&mut self, row: &DirectoryRow) {
        let size = self.groups.entry(row.group).or_default();
        *size = size.saturating_sub(1);
        if row.kind != EntityKind::Subscription {
            let size = self.namespaces.entry(namespace_of(&row.name)).or_default();
            *size = size.saturating_sub(1);
        }
    }
}
