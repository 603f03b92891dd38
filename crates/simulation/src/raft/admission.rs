//! The way back of a replica that lost what it held: taken in as a learner, then given the vote its
//! node had, in one joint change that ends the old id's.

use std::collections::BTreeSet;

use super::{Config, Id};

/// What is left to do until a replica has its node's place.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    TakeIn,
    /// Learners the node lost before they had a vote.
    Drop(BTreeSet<Id>),
    /// These are the voters then.
    GiveVote(BTreeSet<Id>),
}

/// As `replication::group::admission` does it.
fn next_step(config: &Config, id: Id) -> Step {
    let of_node = |other: &&Id| other.node == id.node && **other != id;
    let former: BTreeSet<Id> = config.members.iter().filter(of_node).copied().collect();
    if !config.members.contains(&id) {
        return if former.is_empty() { Step::Nothing } else { Step::TakeIn };
    }
    let lost: BTreeSet<Id> = former.iter().copied().filter(|id| !config.has_voter(*id)).collect();
    if !lost.is_empty() {
        return Step::Drop(lost);
    }
    let voters = config.sets.last().cloned().unwrap_or_default();
    let mut wanted = &voters - &former;
    if wanted.len() < voters.len() {
        wanted.insert(id);
    }
    match wanted == voters && config.sets.len() == 1 {
        true => Step::Nothing,
        false => Step::GiveVote(wanted),
    }
}

/// The membership that brings a replica one step nearer to its node's place; none if nothing is to
/// be done now.
pub fn next_config(config: &Config, id: Id, caught_up: bool) -> Option<Config> {
    let mut next = config.clone();
    match next_step(config, id) {
        Step::Nothing => return None,
        Step::TakeIn => {
            next.members.insert(id);
        }
        Step::Drop(lost) => next.members.retain(|id| !lost.contains(id)),
        Step::GiveVote(_) if !caught_up => return None,
        Step::GiveVote(voters) => next = towards(config, voters),
    }
    Some(next)
}

/// Towards one set of voters: at once if it is one of two, else through a joint set.
pub fn towards(config: &Config, voters: BTreeSet<Id>) -> Config {
    let before: BTreeSet<Id> = config.sets.iter().flatten().copied().collect();
    let sets = match config.sets.contains(&voters) {
        true => vec![voters],
        false => config.sets.last().cloned().into_iter().chain([voters]).collect(),
    };
    let now: BTreeSet<Id> = sets.iter().flatten().copied().collect();
    let learners = &config.members - &before;
    Config { members: &learners | &now, sets }
}
