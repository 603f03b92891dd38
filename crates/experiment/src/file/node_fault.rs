//! What is done to nodes, as it is written.

use std::time::Duration;

use chaos::{Direction, FaultKind, Others, Planned, Victim};
use serde::Deserialize;

use super::TimeText;

/// A fault of a node or its links, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFault {
    pub at: Duration,
    pub lasts: Duration,
    pub kind: FaultKind,
    pub victim: Victim,
    pub direction: Direction,
    pub others: Others,
}

impl NodeFault {
    /// As it is carried out; `seed` draws what is left open.
    pub fn planned(&self, seed: u64) -> Planned {
        Planned {
            at_ms: self.at.as_millis() as u64,
            lasts_ms: self.lasts.as_millis() as u64,
            kind: self.kind,
            victim: self.victim,
            direction: self.direction,
            others: self.others,
            seed,
        }
    }
}

/// As written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeFaultText {
    at: TimeText,
    lasts: Option<TimeText>,
    kind: FaultKind,
    node: Option<u64>,
    leader_of: Option<u32>,
    #[serde(default)]
    direction: DirectionText,
    others: Option<OthersText>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DirectionText {
    #[default]
    Both,
    Out,
    In,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "allowed is \"nodes\", \"clients\" or a node's number")]
enum OthersText {
    Node(u64),
    Named(OthersName),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OthersName {
    Nodes,
    Clients,
}

const LASTS: Duration = Duration::from_secs(3);

impl NodeFaultText {
    /// # Errors
    /// The key that is wrong, and why.
    pub fn read(self, nodes: u64) -> Result<NodeFault, (&'static str, String)> {
        let known = |key, node: u64| match (1..=nodes).contains(&node) {
            true => Ok(node),
            false => Err((key, format!("there is no node {node}; nodes are 1 to {nodes}"))),
        };
        let victim = match (self.node, self.leader_of) {
            (Some(node), None) => Victim::Node(known("node", node)?),
            (None, group) => Victim::LeaderOf(group.unwrap_or(1)),
            (Some(_), Some(_)) => {
                return Err(("leader_of", "name a node or a group, not both".to_owned()));
            }
        };
        let others = match self.others {
            None | Some(OthersText::Named(OthersName::Nodes)) => Others::Nodes,
            Some(OthersText::Named(OthersName::Clients)) => Others::Clients,
            Some(OthersText::Node(node)) => Others::Node(known("others", node)?),
        };
        let direction = match self.direction {
            DirectionText::Both => Direction::Both,
            DirectionText::Out => Direction::Out,
            DirectionText::In => Direction::In,
        };
        self.kind.fits(false, false, false).map_err(|why| {
            // What it says of flags is of another command.
            (
                "kind",
                why.split(": ").next().unwrap_or_default().to_owned()
                    + ", which an experiment with programs has not; leave it out",
            )
        })?;
        let lasts = self.lasts.map_or(LASTS, |time| time.0);
        Ok(NodeFault { at: self.at.0, lasts, kind: self.kind, victim, direction, others })
    }
}
