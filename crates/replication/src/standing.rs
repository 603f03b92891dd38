//! What a node with an empty disk is to its cluster. It may be new, with all the others as new as
//! it is; or it may have lost what it promised, and then it must not speak as who it was.
//!
//! A cluster is founded once, by all its nodes: each has to hear from every other that it is new
//! too, in two rounds, and remembers the births of all. A round alone would not do: a node may have
//! founded it, lost its disk and started again between the answers of two others. Whoever finds the
//! cluster founded later is a founder if its directory's birth is among those, and returns if not.
//! Whoever had data and cannot tell what he was waits for one that found it so, and founds nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use store::{Births, DataDir, Standing};
use tokio::time::{Instant, sleep, timeout};
use tracing::info;

use crate::Error;
use crate::apart::apart;
use crate::peer::connection::Peers;
use crate::peer::v1::{RecallReply, RecallRequest};

const ASK_EVERY: Duration = Duration::from_millis(100);
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How long some may be silent before an operator hears who is waited for, and again.
const SILENT_MAX: Duration = Duration::from_secs(3);
const SILENT_AGAIN: Duration = Duration::from_secs(60);

/// Asks until it is known, and remembers it.
pub(crate) async fn find(node: u64, data: &DataDir, peers: &Arc<Peers>) -> Result<(), Error> {
    let is_lost = match data.standing() {
        Standing::New => false,
        Standing::Lost => true,
        Standing::Founder(_) | Standing::Returned(_) => return Ok(()),
    };
    let mut others = peers.nodes();
    others.retain(|other| *other != node);
    let mut last_round = None;
    let mut tell_at = Instant::now() + SILENT_MAX;
    let standing = loop {
        let answers = ask(peers, &others).await;
        match conclude(node, data.birth(), &others, &answers) {
            Conclusion::Known(standing) if is_lost => break Standing::Returned(standing.births()),
            Conclusion::Known(standing) => break standing,
            Conclusion::AllNew(_) | Conclusion::Wait { .. } if is_lost => {
                if Instant::now() > tell_at {
                    tell_at = Instant::now() + SILENT_AGAIN;
                    info!(
                        "this node does not know any more what it was; it waits for one of nodes \
                         {others:?} that knows the cluster"
                    );
                }
            }
            Conclusion::AllNew(births) if last_round.as_ref() == Some(&births) => {
                break Standing::Founder(births);
            }
            Conclusion::AllNew(births) => last_round = Some(births),
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
    match &standing {
        Standing::New | Standing::Founder(_) => {
            info!("this node founds the cluster with {others:?}")
        }
        Standing::Returned(_) | Standing::Lost => {
            info!(
                "the cluster knows this node and its disk is empty: it is rebuilt from its peers"
            );
        }
    }
    let data = data.clone();
    let settled = apart(move || data.settle(standing)).await;
    settled.map_err(|_| Error::Stopped)?.map_err(Error::Data)
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
    Known(Standing),
    AllNew(Births),
    Wait { silent: Vec<u64> },
}

fn conclude(node: u64, birth: u32, others: &[u64], answers: &[(u64, RecallReply)]) -> Conclusion {
    let founders = answers.iter().filter(|(_, reply)| !reply.new).map(|(_, reply)| &reply.founders);
    let known = |births: &Births| births.get(&node) == Some(&birth);
    let lists: Vec<Births> = founders
        .map(|births| births.iter().map(|(node, birth)| (*node, *birth)).collect())
        .collect();
    // One that does not know this birth is enough: it has met another.
    if let Some(births) = lists.iter().find(|births| !known(births)) {
        return Conclusion::Known(Standing::Returned(births.clone()));
    }
    if let Some(births) = lists.into_iter().next() {
        return Conclusion::Known(Standing::Founder(births));
    }
    let heard = |other: &&u64| answers.iter().any(|(node, _)| node == *other);
    if !others.iter().all(|other| heard(&other)) {
        return Conclusion::Wait { silent: others.iter().filter(|o| !heard(o)).copied().collect() };
    }
    let births = answers.iter().map(|(node, reply)| (*node, reply.birth));
    Conclusion::AllNew(births.chain([(node, birth)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(birth: u32) -> RecallReply {
        RecallReply { birth, new: true, ..RecallReply::default() }
    }

    fn founded(births: &[(u64, u32)]) -> RecallReply {
        RecallReply { birth: 9, new: false, founders: births.iter().copied().collect() }
    }

    #[test]
    fn a_node_founds_only_with_all_others_and_is_a_founder_only_under_its_birth() {
        let (ours, births) =
            ([(1, 11), (2, 22), (3, 33)], Births::from([(1, 11), (2, 22), (3, 33)]));
        let earlier = [(1, 11), (2, 22), (3, 30)];
        for (answers, expected) in [
            (vec![], Conclusion::Wait { silent: vec![1, 2] }),
            (vec![(1, new(11))], Conclusion::Wait { silent: vec![2] }),
            (vec![(1, new(11)), (2, new(22))], Conclusion::AllNew(births.clone())),
            (
                vec![(1, founded(&ours)), (2, new(22))],
                Conclusion::Known(Standing::Founder(births.clone())),
            ),
            (vec![(2, founded(&ours))], Conclusion::Known(Standing::Founder(births.clone()))),
            (vec![(2, founded(&earlier))], Conclusion::Known(Standing::Returned(earlier.into()))),
            (
                vec![(1, founded(&ours)), (2, founded(&earlier))],
                Conclusion::Known(Standing::Returned(earlier.into())),
            ),
            (vec![(2, founded(&[]))], Conclusion::Known(Standing::Returned(Births::new()))),
        ] {
            assert_eq!(conclude(3, 33, &[1, 2], &answers), expected, "{answers:?}");
        }
        assert_eq!(conclude(1, 11, &[], &[]), Conclusion::AllNew([(1, 11)].into()));
    }
}
