//! At the catalog's leader: has data groups that were added be open once each has a leader, in their order, so
//! that no entity is put on one that nobody has founded yet.

use std::collections::BTreeMap;

use domain::{CatalogCommand, ClusterRow, GroupId};

use crate::edge::{Catalog, Router};
use crate::upkeep::placement::Placement;

pub(super) async fn open_groups(router: &Router, cluster: &ClusterRow, placement: &Placement) {
    let open = cluster.data_groups;
    if placement.groups.len() <= usize::from(open) + 1 {
        return; // Mostly.
    }
    let data_groups = may_be_open(open, &placement.groups, &router.standings.confirmed());
    if data_groups == open {
        return;
    }
    let command = CatalogCommand::OpenGroups { data_groups };
    match Catalog::new(router).propose(command, "", router.deadline()).await {
        Ok(_) => tracing::info!(data_groups, "entities are put on new data groups"),
        Err(error) => tracing::debug!(data_groups, %error, "no data groups are opened this time"),
    }
}

/// How many data groups, from the first on, are open or may be: they are placed, and led.
fn may_be_open<P, L>(open: u16, placed: &BTreeMap<GroupId, P>, led: &BTreeMap<GroupId, L>) -> u16 {
    let more = (open.saturating_add(1)..=u16::MAX).map(GroupId);
    let more = more.take_while(|group| placed.contains_key(group) && led.contains_key(group));
    more.last().map_or(open, |group| group.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_opened_in_their_order_once_they_are_led() {
        let of = |groups: &[u16]| -> BTreeMap<GroupId, ()> {
            groups.iter().map(|group| (GroupId(*group), ())).collect()
        };
        for (open, placed, led, expected) in [
            (2, &[0, 1, 2][..], &[0, 1, 2][..], 2),
            (2, &[0, 1, 2, 3, 4], &[0, 1, 2], 2),
            (2, &[0, 1, 2, 3, 4], &[0, 1, 2, 4], 2),
            (2, &[0, 1, 2, 3, 4], &[0, 1, 2, 3], 3),
            (2, &[0, 1, 2, 3, 4], &[3, 4, 5], 4),
            (u16::MAX, &[], &[], u16::MAX),
        ] {
            assert_eq!(may_be_open(open, &of(placed), &of(led)), expected, "{placed:?} {led:?}");
        }
    }
}
