//! A schedule as people write it, in TOML:
//!
//! ```toml
//! [[fault]]
//! at = 5.0            # seconds since the load began
//! lasts = 3.0         # seconds
//! kind = "partition"
//! node = 2            # or leader_of = 1
//! direction = "out"   # or "in"; both without it
//! others = "nodes"    # or "clients", or a node's number
//! ```

use serde::Deserialize;

use super::{Direction, FaultKind, Others, Planned, Victim};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Schedule {
    #[serde(default)]
    fault: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    at: f64,
    #[serde(default = "three")]
    lasts: f64,
    kind: FaultKind,
    node: Option<u64>,
    leader_of: Option<u32>,
    direction: Option<Way>,
    others: Option<Whom>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    Both,
    Out,
    In,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Whom {
    Node(u64),
    Named(String),
}

fn three() -> f64 {
    3.0
}

/// Reads a schedule for a cluster of so many nodes. The error says which entry and why.
pub fn parse_schedule(text: &str, nodes: u64, seed: u64) -> Result<Vec<Planned>, String> {
    let schedule: Schedule = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let entries = schedule.fault.into_iter().enumerate();
    let planned = entries.map(|(index, entry)| {
        let seed = seed.wrapping_add(index as u64);
        entry.planned(nodes, seed).map_err(|told| format!("[[fault]] {}: {told}", index + 1))
    });
    let mut plan: Vec<Planned> = planned.collect::<Result<_, _>>()?;
    plan.sort_by_key(|fault| fault.at_ms);
    let overlap = plan.windows(2).find(|pair| pair[0].at_ms + pair[0].lasts_ms > pair[1].at_ms);
    match overlap {
        Some(pair) => Err(format!(
            "the fault at {} s begins before the one at {} s is over",
            pair[1].at_ms as f64 / 1e3,
            pair[0].at_ms as f64 / 1e3
        )),
        None => Ok(plan),
    }
}

impl Entry {
    fn planned(self, nodes: u64, seed: u64) -> Result<Planned, String> {
        let known = |node: u64| match (1..=nodes).contains(&node) {
            true => Ok(node),
            false => Err(format!("there is no node {node}; nodes are 1 to {nodes}")),
        };
        let victim = match (self.node, self.leader_of) {
            (Some(node), None) => Victim::Node(known(node)?),
            (None, group) => Victim::LeaderOf(group.unwrap_or(1)),
            (Some(_), Some(_)) => return Err("name a node or a group, not both".to_owned()),
        };
        let direction = match self.direction {
            None | Some(Way::Both) => Direction::Both,
            Some(Way::Out) => Direction::Out,
            Some(Way::In) => Direction::In,
        };
        let others = match self.others {
            None => Others::Nodes,
            Some(Whom::Node(node)) => Others::Node(known(node)?),
            Some(Whom::Named(name)) if name == "nodes" => Others::Nodes,
            Some(Whom::Named(name)) if name == "clients" => Others::Clients,
            Some(Whom::Named(name)) => {
                return Err(format!("others: '{name}'; write nodes, clients or a node's number"));
            }
        };
        let ms = |seconds: f64, what: &str| match (0.0..=1e6).contains(&seconds) {
            true => Ok((seconds * 1e3) as u64),
            false => Err(format!("{what} is {seconds}; write seconds")),
        };
        let (at_ms, lasts_ms) = (ms(self.at, "at")?, ms(self.lasts, "lasts")?);
        Ok(Planned { at_ms, lasts_ms, kind: self.kind, victim, direction, others, seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read() {
        let text = "[[fault]]\nat = 9\nkind = \"kill\"\nleader_of = 2\n\
                    [[fault]]\nat = 1.5\nlasts = 2\nkind = \"partition\"\nnode = 3\n\
                    direction = \"in\"\nothers = 1\n";
        let plan = parse_schedule(text, 3, 1).expect("it is right");
        let told: Vec<_> = plan.iter().map(|it| (it.at_ms, it.lasts_ms, it.kind)).collect();
        assert_eq!(told, [(1500, 2000, FaultKind::Partition), (9000, 3000, FaultKind::Kill)]);
        assert_eq!((plan[0].direction, plan[0].others), (Direction::In, Others::Node(1)));
        assert_eq!((plan[0].victim, plan[1].victim), (Victim::Node(3), Victim::LeaderOf(2)));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_entry() {
        for (text, told) in [
            ("[[fault]]\nat = 1\nkind = \"kill\"\nnode = 4\n", "there is no node 4"),
            ("[[fault]]\nat = 1\nkind = \"kil\"\n", "unknown variant `kil`"),
            ("[[fault]]\nat = -1\nkind = \"kill\"\n", "[[fault]] 1: at is -1; write seconds"),
            ("[[fault]]\nat = 1\nkind = \"kill\"\nothers = \"us\"\n", "others: 'us'"),
            (
                "[[fault]]\nat = 1\nkind = \"kill\"\n[[fault]]\nat = 2\nkind = \"kill\"\n",
                "the fault at 2 s begins before the one at 1 s is over",
            ),
        ] {
            let error = parse_schedule(text, 3, 1).expect_err(text);
            assert!(error.contains(told), "{error}");
        }
    }
}
