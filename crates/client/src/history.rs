//! The lives of messages, put together from what the nodes recorded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::calls::Repeat;
use crate::nodes::Node;
use crate::v1;
use crate::{Client, Error};

/// Between two looks for what is still missing.
const PAUSE: Duration = Duration::from_millis(100);

/// Reads what happens to messages, each step once, in the order of each group's log. Every replica of a group
/// records the same, so one of them is enough, and what one lost another has.
pub struct HistoryReader {
    client: Client,
    /// By group: the first log index that was not read yet.
    next: BTreeMap<u32, u64>,
}

/// Log entries of a group that no node has the record of any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryGap {
    pub group: u32,
    pub first_index: u64,
    pub last_index: u64,
}

impl Client {
    /// Follows what happens to messages from here on.
    ///
    /// # Errors
    /// No group says how far it is, or nothing is recorded.
    pub async fn follow_history(&self) -> Result<HistoryReader, Error> {
        let marks = self.history_marks().await?;
        let next = marks.into_iter().map(|(group, applied)| (group, applied + 1)).collect();
        Ok(HistoryReader { client: self.clone(), next })
    }

    /// What nodes recorded of some messages, put together by the one that is asked. It names those that did not
    /// answer it.
    ///
    /// # Errors
    /// No node answers, or the request is refused: nothing is recorded, or a right is missing.
    pub async fn find_messages(
        &self,
        asked: v1::FindMessagesRequest,
    ) -> Result<v1::FindMessagesResponse, Error> {
        let attempt = |node: Arc<Node>, _| {
            let asked = asked.clone();
            async move { node.history().find_messages(node.request(asked)).await }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// How far the groups are whose leaders answer.
    async fn history_marks(&self) -> Result<BTreeMap<u32, u64>, Error> {
        let (mut marks, mut failed) = (BTreeMap::new(), None);
        self.know_all_nodes().await?;
        for node in self.shared.nodes.order(None) {
            let mut history = node.history();
            let asked = history.marks(node.request(v1::HistoryMarksRequest {}));
            match node.attempt(self.patience(), asked).await {
                Ok(answer) => {
                    for (group, applied) in answer.into_inner().applied {
                        let mark = marks.entry(group).or_insert(applied);
                        *mark = applied.max(*mark);
                    }
                }
                Err(error @ Error::Refused(_)) => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        match (marks.is_empty(), failed) {
            (true, Some(error)) => Err(error),
            _ => Ok(marks),
        }
    }
}

impl Client {
    /// Every replica is asked, also on nodes that nobody has named yet.
    async fn know_all_nodes(&self) -> Result<(), Error> {
        let status = self.status(true).await?;
        let there = status.nodes.iter().filter(|node| node.role() != v1::NodeRole::Removed);
        self.shared.nodes.learn(there.map(|node| (node.id, node.grpc_address.as_str())));
        Ok(())
    }
}

impl HistoryReader {
    /// What is new, as far as the nodes that answer have it without a gap.
    ///
    /// # Errors
    /// No node answers, or one refuses.
    pub async fn read(&mut self) -> Result<Vec<v1::MessageEvent>, Error> {
        let parts = self.parts().await?;
        Ok(self.join(parts, false).0)
    }

    /// Everything that had happened when this was called, and what of it nobody has any more. Waits at most so
    /// long for nodes that are behind.
    ///
    /// # Errors
    /// As [`HistoryReader::read`], or it is not all there in time.
    pub async fn read_to_end(
        &mut self,
        patience: Duration,
    ) -> Result<(Vec<v1::MessageEvent>, Vec<HistoryGap>), Error> {
        let started = Instant::now();
        let mut marks = BTreeMap::new();
        let (mut events, mut gaps) = (Vec::new(), Vec::new());
        loop {
            // Of groups without a leader, the next time.
            for (group, applied) in self.client.history_marks().await? {
                marks.entry(group).or_insert(applied);
            }
            let parts = self.parts().await?;
            let late = started.elapsed() >= patience;
            let (found, missing) = self.join(parts, late);
            events.extend(found);
            gaps.extend(missing);
            let behind = self.behind(&marks);
            match behind {
                None if self.next.keys().all(|group| marks.contains_key(group)) => {
                    return Ok((events, gaps));
                }
                _ if !late => tokio::time::sleep(PAUSE).await,
                None => return Err(Error::not_done("a group has no leader to say how far it is")),
                Some(group) => {
                    return Err(Error::not_done(format!(
                        "the record of group {group} does not reach what it has done"
                    )));
                }
            }
        }
    }

    fn behind(&self, marks: &BTreeMap<u32, u64>) -> Option<u32> {
        let is_behind =
            |group: &u32, applied: u64| self.next.get(group).is_none_or(|next| *next <= applied);
        marks.iter().find(|(group, applied)| is_behind(group, **applied)).map(|(group, _)| *group)
    }

    /// What all nodes that answer have from there on.
    async fn parts(&self) -> Result<Vec<v1::ReadHistoryResponse>, Error> {
        let (mut parts, mut answered, mut failed) = (Vec::new(), false, None);
        for node in self.client.shared.nodes.order(None) {
            match node.attempt(self.client.patience(), self.read_node(&node)).await {
                Ok(found) => {
                    answered = true;
                    parts.extend(found);
                }
                Err(error @ Error::Refused(_)) => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        match (answered, failed) {
            (false, Some(error)) => Err(error),
            _ => Ok(parts),
        }
    }

    async fn read_node(
        &self,
        node: &Arc<Node>,
    ) -> Result<Vec<v1::ReadHistoryResponse>, tonic::Status> {
        let request = v1::ReadHistoryRequest { from: self.next.clone() };
        let mut answers = node.history().read(node.request(request)).await?.into_inner();
        let mut parts = Vec::new();
        while let Some(part) = answers.message().await? {
            parts.push(part);
        }
        Ok(parts)
    }

    /// Takes what follows on what was read; with `past_gaps` also what does not, and says what is missing.
    fn join(
        &mut self,
        mut parts: Vec<v1::ReadHistoryResponse>,
        past_gaps: bool,
    ) -> (Vec<v1::MessageEvent>, Vec<HistoryGap>) {
        let (mut events, mut gaps) = (Vec::new(), Vec::new());
        parts.sort_by_key(|part| (part.group, part.first_index, part.last_index));
        for part in parts {
            // Of a group that had no leader to say how far it was: all that is kept.
            let next = self.next.entry(part.group).or_insert(part.first_index);
            if part.last_index < *next {
                continue;
            }
            if part.first_index > *next {
                if !past_gaps {
                    continue;
                }
                let (group, first_index, last_index) = (part.group, *next, part.first_index - 1);
                gaps.push(HistoryGap { group, first_index, last_index });
            }
            events.extend(part.events.into_iter().filter(|event| event.index >= *next));
            *next = part.last_index + 1;
        }
        (events, gaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(group: u32, first_index: u64, last_index: u64) -> v1::ReadHistoryResponse {
        let event = |index| v1::MessageEvent { group, index, ..v1::MessageEvent::default() };
        let events = (first_index..=last_index).map(event).collect();
        v1::ReadHistoryResponse { group, first_index, last_index, events }
    }

    fn reader(next: &[(u32, u64)]) -> HistoryReader {
        let client = Client::connect(["127.0.0.1:1"]).expect("an address");
        HistoryReader { client, next: next.iter().copied().collect() }
    }

    fn indexes(events: &[v1::MessageEvent]) -> Vec<(u32, u64)> {
        events.iter().map(|event| (event.group, event.index)).collect()
    }

    #[tokio::test]
    async fn each_entry_is_read_once_from_whichever_replica_has_it() {
        let mut reader = reader(&[(1, 5), (2, 1)]);
        let parts = vec![part(1, 3, 6), part(2, 1, 1), part(1, 1, 8), part(1, 7, 9), part(2, 1, 2)];
        let (events, gaps) = reader.join(parts, false);
        let expected = [(1, 5), (1, 6), (1, 7), (1, 8), (1, 9), (2, 1), (2, 2)];
        let mut found = indexes(&events);
        found.sort_unstable();
        assert_eq!((found.as_slice(), gaps.as_slice()), (&expected[..], &[][..]));
        assert_eq!(reader.next, BTreeMap::from([(1, 10), (2, 3)]));
        assert_eq!(reader.behind(&BTreeMap::from([(1, 9), (2, 3)])), Some(2));
    }

    #[tokio::test]
    async fn what_no_node_has_is_waited_for_and_then_told() {
        let mut reader = reader(&[(1, 5)]);
        let (events, _) = reader.join(vec![part(1, 8, 9)], false);
        assert_eq!((events.len(), reader.next[&1]), (0, 5), "another node may have it");
        let (events, gaps) = reader.join(vec![part(1, 8, 9)], true);
        assert_eq!(indexes(&events), [(1, 8), (1, 9)]);
        assert_eq!(gaps, [HistoryGap { group: 1, first_index: 5, last_index: 7 }]);
    }
}
