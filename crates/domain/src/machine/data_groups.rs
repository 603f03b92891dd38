//! Data groups that come later than the cluster. The catalog says once, with the groups, who founds them; a
//! group that is there already stays as it is, and nothing moves. Entities are put on a new one when it is open.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::members::Members;
use crate::{ClusterRow, DATA_GROUPS_MAX, GroupId, Key, Outcome, Refusal, Row, Rows};

const WHAT: &str = "data groups";

fn refuse(why: String) -> Result<Outcome, Refusal> {
    Err(Refusal::Argument { what: WHAT, why })
}

pub(super) struct DataGroups<'s, R> {
    pub members: Members<'s, R>,
}

impl<R: Rows> DataGroups<'_, R> {
    /// Each new group is given the nodes that hold the fewest replicas, of those that stay and have said which
    /// data directory is theirs; as many as any group has.
    pub fn add(
        &mut self,
        data_groups: u16,
        directories: Vec<(u64, u32)>,
    ) -> Result<Outcome, Refusal> {
        let cluster = self.members.formed()?;
        if !(1..=DATA_GROUPS_MAX).contains(&data_groups) {
            return refuse(format!("{data_groups} are asked, allowed is 1 to {DATA_GROUPS_MAX}"));
        }
        let placed = self.placed(&cluster);
        if data_groups < placed {
            return refuse(format!(
                "there are {placed} already, and never fewer: what is on them would have nowhere to be; \
                 {data_groups} are asked"
            ));
        }
        if data_groups == placed {
            return Ok(Outcome::Done);
        }
        let staying = self.members.staying();
        let directories: BTreeMap<u64, u32> =
            directories.into_iter().filter(|(node, _)| staying.contains(node)).collect();
        let factor = usize::from(cluster.replication_factor).min(staying.len());
        if directories.len() < factor {
            let silent: Vec<String> = staying
                .iter()
                .filter(|node| !directories.contains_key(node))
                .map(u64::to_string)
                .collect();
            return refuse(format!(
                "a new one needs {factor} nodes to be founded on, and {} answer; start node {}, then ask again",
                directories.len(),
                silent.join(", ")
            ));
        }
        let mut held: BTreeMap<u64, usize> =
            directories.keys().map(|node| (*node, self.members.groups_of(*node))).collect();
        for group in placed + 1..=data_groups {
            let mut least: Vec<u64> = held.keys().copied().collect();
            least.sort_by_key(|node| (held[node], *node));
            least.truncate(factor);
            let chosen: BTreeSet<u64> = least.into_iter().collect();
            for node in &chosen {
                *held.entry(*node).or_default() += 1;
            }
            let founders = chosen.iter().map(|node| (*node, directories[node])).collect();
            let group = GroupId(group);
            self.members.put_group(group, chosen.into_iter().collect());
            self.members.view.put(Key::Founders(group), Row::Founders(founders));
        }
        Ok(Outcome::Done)
    }

    pub fn open(&mut self, data_groups: u16) -> Result<Outcome, Refusal> {
        let cluster = self.members.formed()?;
        let placed = self.placed(&cluster);
        if data_groups > placed {
            return refuse(format!("there are {placed}, and {data_groups} shall be open"));
        }
        if data_groups > cluster.data_groups {
            let opened = ClusterRow { data_groups, ..cluster };
            self.members.view.replace(Key::Cluster, Row::Cluster(opened));
        }
        Ok(Outcome::Done)
    }

    /// How many there are, open or not.
    fn placed(&mut self, cluster: &ClusterRow) -> u16 {
        let mut placed = cluster.data_groups;
        while let Some(next) = placed.checked_add(1)
            && self.members.view.get(&Key::Group(GroupId(next))).is_some()
        {
            placed = next;
        }
        placed
    }
}
