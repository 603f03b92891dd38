//! What happened to messages: as this node has it, and as all nodes do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{GroupId, Refusal, namespace_of, told_name};
use futures::future::join_all;
use prost::Message;
use replication::MessageHistory;
use wire::v1;

use crate::edge::cluster::Cluster;
use crate::error::{Error, Result};
use crate::facts::Untold;
use crate::history::{ASK_HISTORY, Looked, MessageSearch};

const NOT_RECORDED: Refusal = Refusal::InvalidOperation {
    why: "what happens to messages is not recorded; start every node with --message-history and a size \
          in mebibytes, as 64",
};
/// Why a node is missing that answers.
const RECORDS_NOTHING: &str = "it records nothing";

/// How long nodes are waited for by whoever does not say, and at most.
const WITHIN: Duration = Duration::from_secs(3);
const WITHIN_MAX: Duration = Duration::from_secs(10);
/// How often nodes are asked at most: what a message is called, where it was then, and what is told of it there.
const ROUNDS_MAX: u32 = 4;

impl Cluster<'_> {
    /// What happened to messages in this node's replicas.
    ///
    /// # Errors
    /// Refused where it is not recorded.
    pub fn message_history(self) -> Result<Arc<MessageHistory>> {
        let history = self.router().local.replication.message_history();
        history.ok_or_else(|| Error::new(NOT_RECORDED, ""))
    }

    /// How far the groups are that this node leads: the index of each one's last entry that was applied.
    ///
    /// # Errors
    /// Refused where it is not recorded what happens.
    pub fn history_marks(self) -> Result<Vec<(GroupId, u64)>> {
        self.message_history()?;
        let groups = self.router().local.replication.status();
        let led = groups.into_iter().filter(|group| group.leading);
        Ok(led.filter_map(|group| Some((group.id, group.applied?))).collect())
    }

    /// What all nodes have of the messages that are asked for, each step once. They look for them themselves, so that
    /// little travels; who does not answer in time is named.
    ///
    /// # Errors
    /// Refused where nothing says which messages are meant, and where no node records what happens.
    pub async fn find_messages(
        self,
        mut asked: v1::FindMessagesRequest,
    ) -> Result<v1::FindMessagesResponse> {
        let within = match asked.within_ms {
            0 => WITHIN,
            ms => Duration::from_millis(ms.into()).min(WITHIN_MAX),
        };
        let entity = asked.entity.clone();
        let refused = |refusal| Error::new(refusal, entity.as_str());
        if !asked.entity.is_empty() {
            let named = self.namespace.qualify(&asked.entity).map_err(refused)?;
            asked.entity = named.as_str().to_owned();
        }
        let mut search = MessageSearch::of(asked).map_err(refused)?;
        let until = Instant::now() + within;
        let mut nodes = self.node_ids();
        let mut untold = Vec::new();
        let mut looked = Looked::default();
        for round in 1..=ROUNDS_MAX {
            // Half of what is left, so that a node which is silent leaves time to ask the others again.
            let share = until.saturating_duration_since(Instant::now()) / 2;
            let answers = self.ask_histories(&nodes, &search, share).await;
            let mut told = Vec::new();
            for (node, answer) in answers {
                match answer {
                    Ok(answer) => told.push(answer),
                    Err(why) => {
                        nodes.retain(|it| *it != node);
                        untold.push(v1::UntoldNode { node, why });
                    }
                }
            }
            if nodes.is_empty() && untold.iter().any(|it| it.why == RECORDS_NOTHING) {
                return Err(Error::new(NOT_RECORDED, ""));
            }
            looked = Looked::merged(told);
            if !search.learn(&looked) {
                break;
            }
            looked.more |= round == ROUNDS_MAX;
        }
        let mut found = v1::FindMessagesResponse { untold, ..search.told(&looked) };
        // One of that id may be in another namespace (NS-3).
        let entity =
            |step: &v1::MessageStep| step.event.as_ref().map(|event| namespace_of(&event.entity));
        found.steps.retain(|step| entity(step).is_none_or(|it| it == *self.namespace));
        for event in found.steps.iter_mut().filter_map(|step| step.event.as_mut()) {
            event.entity = told_name(&event.entity).to_owned();
        }
        Ok(found)
    }

    async fn ask_histories(
        self,
        nodes: &[u64],
        search: &MessageSearch,
        within: Duration,
    ) -> Vec<(u64, std::result::Result<v1::AskHistoryResponse, String>)> {
        // Its answer has to come here in time.
        let looking = within * 3 / 4;
        let question = search.question(u32::try_from(looking.as_millis()).unwrap_or(u32::MAX));
        let asked = bytes::Bytes::from(question.encode_to_vec());
        let answers = nodes.iter().map(|node| {
            let (node, asked) = (*node, asked.clone());
            async move {
                let told = self.inquire_within(node, ASK_HISTORY, asked, within).await;
                let read = |told| v1::AskHistoryResponse::decode(told).map_err(|_| Untold::Unknown);
                let answer = match told.and_then(read) {
                    Ok(answer) if answer.recorded => Ok(answer),
                    Ok(_) => Err(RECORDS_NOTHING.to_owned()),
                    Err(why) => Err(why.to_string()),
                };
                (node, answer)
            }
        });
        join_all(answers).await
    }
}
