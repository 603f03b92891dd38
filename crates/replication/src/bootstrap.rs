//! Bootstrap: how a node with an empty disk learns its provenance ([`store::Provenance`]). It may
//! be new, with all the others as new as it is; or it may have lost what it promised, and then it
//! must not speak as who it was.
//!
//! A cluster is founded once, by all its nodes: each has to hear from every other that it is new
//! too, in two rounds, and remembers the directory ids of all. A round alone would not do: a node
//! may have founded it, lost its disk and started again between the answers of two others. Whoever
//! finds the cluster founded later is a founder if its directory's id is among those, and returns
//! if not. Whoever had data and cannot tell what he was waits for one that found it so, and founds
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use store::{DataDir, Founders, Provenance};
use tokio::time::{Instant, sleep, timeout};
use tracing::info;

use crate::Error;
use crate::blocking::run_blocking;
use crate::peer::connection::{Outdated, Peers};
use crate::peer::v1::{RecallReply, RecallRequest};

const ASK_EVERY: Duration = Duration::from_millis(100);
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How long some may be silent before an operator hears who is waited for, and again.
const SILENT_MAX: Duration = Duration::from_secs(3);
const SILENT_AGAIN: Duration = Duration::from_secs(60);

/// Asks until it is known, and remembers it.
pub(crate) async fn find_provenance(
    node: u64,
    data: &DataDir,
    peers: &Arc<Peers>,
) -> Result<(), Error> {
    let is_lost = match data.provenance() {
        Provenance::New => false,
        Provenance::Lost => true,
        Provenance::Founder(_) | Provenance::Returned(_) => {
            return check_age(node, data, peers).await;
        }
    };
    let others = others(node, peers);
    let mut last_round = None;
    let mut tell_at = Instant::now() + SILENT_MAX;
    let provenance = loop {
        let answers = ask(peers, &others).await;
        match conclude(node, data.id(), &others, &answers) {
            Conclusion::Known(provenance) if is_lost => {
                break Provenance::Returned(provenance.founders());
            }
            Conclusion::Known(provenance) => break provenance,
            Conclusion::AllNew(_) | Conclusion::Wait { .. } if is_lost => {
                if Instant::now() > tell_at {
                    tell_at = Instant::now() + SILENT_AGAIN;
                    info!(
                        "this node does not know any more what it was; it waits for one of nodes \
                         {others:?} that knows the cluster"
                    );
                }
            }
            Conclusion::AllNew(founders) if last_round.as_ref() == Some(&founders) => {
                break Provenance::Founder(founders);
            }
            Conclusion::AllNew(founders) => last_round = Some(founders),
            Conclusion::Wait { silent } => {
                last_round = None;
                if Instant::now() > tell_at {
                    tell_at = Instant::now() + SILENT_AGAIN;
                    info!(
                        "this node's disk is empty; it waits for nodes {silent:?}, without which it \
                         cannot know whether the cluster is new"
                    );
                }
            }
        }
        sleep(ASK_EVERY).await;
    };
    match &provenance {
        Provenance::New | Provenance::Founder(_) => {
            info!("this node founds the cluster with {others:?}")
        }
        Provenance::Returned(_) | Provenance::Lost => {
            info!(
                "the cluster knows this node and its disk is empty: it is rebuilt from its peers"
            );
        }
    }
    let data = data.clone();
    let settled = run_blocking(move || data.settle(provenance)).await;
    settled.map_err(|_| Error::Stopped)?.map_err(Error::Data)
}

fn others(node: u64, peers: &Peers) -> Vec<u64> {
    peers.nodes().into_iter().filter(|other| *other != node).collect()
}

/// Whether a peer that answers knows this node's directory to be an old one. Asked before the node speaks or votes; who
/// starts when nobody answers is told later.
async fn check_age(node: u64, data: &DataDir, peers: &Arc<Peers>) -> Result<(), Error> {
    let answers = ask(peers, &others(node, peers)).await;
    match (peers.has_outdated(), peers.founded_apart()) {
        (Some(told), _) => Err(outdated(told, data.clone()).await),
        (None, Some(by)) if answers.is_empty() => Err(Error::FoundedApart { node, by }),
        (None, _) => Ok(()),
    }
}

/// Has the next start lay this node's data aside, for what a peer knows about them.
pub(crate) async fn outdated(told: Outdated, data: DataDir) -> Error {
    let Outdated { by, why } = told;
    let note = why.clone();
    match run_blocking(move || data.distrust(&note)).await {
        Ok(Ok(())) => Error::Outdated { by, why },
        Ok(Err(noting)) => Error::Data(noting),
        Err(_) => Error::Stopped,
    }
}

/// A round of questions; who is silent is missing.
async fn ask(peers: &Arc<Peers>, others: &[u64]) -> Vec<(u64, RecallReply)> {
    let asked = others.iter().map(|node| async move {
        let peer = peers.get(*node)?;
        let mut client = peer.control.clone();
        match timeout(ANSWER_MAX, client.recall(RecallRequest {})).await.ok()? {
            Ok(reply) => Some((*node, reply.into_inner())),
            Err(status) => {
                peer.failed(&status); // Tells why, once.
                None
            }
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// What a round of answers says.
#[derive(Debug, PartialEq, Eq)]
enum Conclusion {
    Known(Provenance),
    AllNew(Founders),
    Wait { silent: Vec<u64> },
}

fn conclude(
    node: u64,
    directory_id: u32,
    others: &[u64],
    answers: &[(u64, RecallReply)],
) -> Conclusion {
    let founders = answers.iter().filter(|(_, reply)| !reply.new).map(|(_, reply)| &reply.founders);
    let known = |founders: &Founders| founders.get(&node) == Some(&directory_id);
    let lists: Vec<Founders> =
        founders.map(|founders| founders.iter().map(|(node, id)| (*node, *id)).collect()).collect();
    // One that does not know this directory id is enough: it has met another.
    if let Some(founders) = lists.iter().find(|founders| !known(founders)) {
        return Conclusion::Known(Provenance::Returned(founders.clone()));
    }
    if let Some(founders) = lists.into_iter().next() {
        return Conclusion::Known(Provenance::Founder(founders));
    }
    let heard = |other: &&u64| answers.iter().any(|(node, _)| node == *other);
    if !others.iter().all(|other| heard(&other)) {
        return Conclusion::Wait { silent: others.iter().filter(|o| !heard(o)).copied().collect() };
    }
    let founders = answers.iter().map(|(node, reply)| (*node, reply.directory_id));
    Conclusion::AllNew(founders.chain([(node, directory_id)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(directory_id: u32) -> RecallReply {
        RecallReply { directory_id, new: true, ..RecallReply::default() }
    }

    fn founded(founders: &[(u64, u32)]) -> RecallReply {
        RecallReply { directory_id: 9, new: false, founders: founders.iter().copied().collect() }
    }

    #[test]
    fn a_node_founds_only_with_all_others_and_is_a_founder_only_under_its_directory_id() {
        let (ours, founders) =
            ([(1, 11), (2, 22), (3, 33)], Founders::from([(1, 11), (2, 22), (3, 33)]));
        let earlier = [(1, 11), (2, 22), (3, 30)];
        for (answers, expected) in [
            (vec![], Conclusion::Wait { silent: vec![1, 2] }),
            (vec![(1, new(11))], Conclusion::Wait { silent: vec![2] }),
            (vec![(1, new(11)), (2, new(22))], Conclusion::AllNew(founders.clone())),
            (
                vec![(1, founded(&ours)), (2, new(22))],
                Conclusion::Known(Provenance::Founder(founders.clone())),
            ),
            (vec![(2, founded(&ours))], Conclusion::Known(Provenance::Founder(founders.clone()))),
            (vec![(2, founded(&earlier))], Conclusion::Known(Provenance::Returned(earlier.into()))),
            (
                vec![(1, founded(&ours)), (2, founded(&earlier))],
                Conclusion::Known(Provenance::Returned(earlier.into())),
            ),
            (vec![(2, founded(&[]))], Conclusion::Known(Provenance::Returned(Founders::new()))),
        ] {
            assert_eq!(conclude(3, 33, &[1, 2], &answers), expected, "{answers:?}");
        }
        assert_eq!(conclude(1, 11, &[], &[]), Conclusion::AllNew([(1, 11)].into()));
    }
}
