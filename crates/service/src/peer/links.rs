//! The links to all other nodes, opened as they are needed.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use domain::{EntityId, GroupId};
use parking_lot::Mutex;
use replication::{NodeDescription, Replication};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::exchange::{CutAnswer, CutRequest, IdleReport, NodeReport};
use crate::facts::Untold;
use crate::peer::link::{Link, Outgoing};

/// How long a node may take to say how it is, or what it knows.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a node may take to read some rows of a cut, which may have to come by there first.
const CUT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Links {
    replication: Replication,
    links: Mutex<HashMap<u64, Link>>,
}

impl Links {
    pub fn new(replication: Replication) -> Links {
        Links { replication, links: Mutex::default() }
    }

    pub fn to(&self, node: u64) -> Link {
        let mut links = self.links.lock();
        match links.get(&node) {
            Some(link) if link.is_open() => link.clone(),
            _ => {
                let link = Link::open(node, self.replication.clone());
                links.insert(node, link.clone());
                link
            }
        }
    }

    /// Gives up the links over which a node was asked as a group's leader that leads it no more, and has
    /// not answered: what it was asked is perhaps done.
    pub fn give_up_silent(&self, group: GroupId, leader: u64) {
        for (node, link) in self.links.lock().iter() {
            if *node != leader && link.is_open() && link.owes(group) {
                tracing::info!(%group, leader, node, "a former leader is silent: given up");
                link.give_up();
            }
        }
    }

    /// What a node says of itself; `None` if it does not answer.
    pub async fn report(&self, node: u64) -> Option<NodeReport> {
        let (reply, report) = oneshot::channel();
        self.to(node).send(Outgoing::Report { reply });
        timeout(REPORT_TIMEOUT, report).await.ok()?.ok()
    }

    /// What a node is; `None` if it does not answer, or is of a version that does not tell.
    pub async fn describe(&self, node: u64) -> Option<NodeDescription> {
        timeout(REPORT_TIMEOUT, self.replication.ask_description(node)).await.ok()?.ok()?
    }

    /// What a node tells operators beside what the broker knows.
    pub async fn inquire(
        &self,
        node: u64,
        question: &str,
        asked: Bytes,
        within: Duration,
    ) -> Result<Bytes, Untold> {
        let answer = timeout(within, self.replication.inquire(node, question, asked)).await;
        match answer {
            Ok(Ok(Some(told))) => Ok(told),
            Ok(Ok(None)) => Err(Untold::Unknown),
            Ok(Err(_)) | Err(_) => Err(Untold::Silent),
        }
    }

    /// The id of a node's data directory; `None` if it does not answer.
    pub async fn directory_id(&self, node: u64) -> Option<u32> {
        timeout(REPORT_TIMEOUT, self.replication.ask_directory_id(node)).await.ok()?.ok()
    }

    /// As [`LocalNode::cut`](super::LocalNode::cut), of another node.
    pub async fn cut(&self, node: u64, group: GroupId, asked: CutRequest) -> CutAnswer {
        let (reply, answer) = oneshot::channel();
        self.to(node).send(Outgoing::Cut { group, asked, reply });
        match timeout(CUT_TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err("it does not answer".to_owned()),
        }
    }

    /// Tells a node that the rows of a cut are not needed any more, and waits for no answer.
    pub fn release_cut(&self, node: u64, group: GroupId, number: u64) {
        let (reply, _) = oneshot::channel();
        self.to(node).send(Outgoing::Cut { group, asked: CutRequest::Release { number }, reply });
    }

    /// As [`LocalNode::spend`](super::LocalNode::spend), of another node; nothing if it does not answer.
    pub async fn spend(&self, node: u64, spent: Vec<(String, u64)>) -> Vec<u64> {
        let (reply, owed_ms) = oneshot::channel();
        self.to(node).send(Outgoing::Spend { spent, reply });
        match timeout(REPORT_TIMEOUT, owed_ms).await {
            Ok(Ok(owed_ms)) => owed_ms,
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }

    /// As [`LocalNode::idle_report`](super::LocalNode::idle_report), of another node; nothing if it does
    /// not answer.
    pub async fn idle_report(&self, node: u64, asked: &[EntityId]) -> IdleReport {
        let (reply, report) = oneshot::channel();
        self.to(node).send(Outgoing::Idle { asked: asked.to_vec(), reply });
        match timeout(REPORT_TIMEOUT, report).await {
            Ok(Ok(report)) => report,
            Ok(Err(_)) | Err(_) => IdleReport::default(),
        }
    }
}
