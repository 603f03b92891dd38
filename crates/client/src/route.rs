//! Which node leads a queue's group. A route is a preference only: every node forwards.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::nodes::{Node, Nodes};
use crate::{Error, v1};

/// A leader learned this long ago is asked for again.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// A route is worth a short wait only: any node will do.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Groups of queues, which never change, and leaders of groups, which do.
#[derive(Default)]
pub(crate) struct Routes {
    groups: Mutex<HashMap<String, u32>>,
    leaders: Mutex<Option<(Instant, HashMap<u32, u64>)>>,
}

impl Routes {
    /// The node that leads the queue's group, where some node knows.
    pub async fn leader(&self, nodes: &Nodes, queue: &str) -> Option<u64> {
        let group = self.group(nodes, queue).await?;
        if let Some((learned, leaders)) = &*lock(&self.leaders)
            && learned.elapsed() < FRESH_FOR
        {
            return leaders.get(&group).copied();
        }
        let status = self.status(nodes).await?;
        nodes.learn(&status.nodes);
        let leaders: HashMap<u32, u64> = status
            .groups
            .iter()
            .filter(|group| group.leader != 0)
            .map(|group| (group.id, group.leader))
            .collect();
        let leader = leaders.get(&group).copied();
        *lock(&self.leaders) = Some((Instant::now(), leaders));
        leader
    }

    /// What was learned proved wrong: ask again next time.
    pub fn forget_leaders(&self) {
        *lock(&self.leaders) = None;
    }

    /// The queue is gone; another of its name may live in another group.
    pub fn forget_queue(&self, queue: &str) {
        lock(&self.groups).remove(&queue.to_lowercase());
    }

    async fn group(&self, nodes: &Nodes, queue: &str) -> Option<u32> {
        let name = queue.to_lowercase();
        if let Some(group) = lock(&self.groups).get(&name) {
            return Some(*group);
        }
        for node in nodes.order(None) {
            match group_of(&node, queue, &name).await {
                Ok(group) => {
                    lock(&self.groups).insert(name, group);
                    return Some(group);
                }
                Err(Error::Refused(_)) => return None,
                Err(Error::NotDone(_) | Error::PerhapsDone(_)) => (),
            }
        }
        None
    }

    /// What one node knows by itself: needs no majority, so it answers during an election.
    async fn status(&self, nodes: &Nodes) -> Option<v1::StatusResponse> {
        for node in nodes.order(None) {
            let mut api = node.cluster();
            let request = node.request(v1::StatusRequest { local: true });
            if let Ok(answer) = node.attempt(PATIENCE, api.status(request)).await {
                return Some(answer.into_inner());
            }
        }
        None
    }
}

/// Of a queue or a topic, or of a subscription, which is where its topic is.
async fn group_of(node: &Node, entity: &str, lowered: &str) -> Result<u32, Error> {
    let mut api = node.entities();
    let topic = match lowered.rfind("/subscriptions/") {
        Some(at) => entity.get(..at).unwrap_or(entity),
        None => {
            let request = node.request(v1::GetQueueRequest { name: entity.to_owned() });
            match node.attempt(PATIENCE, api.get_queue(request)).await {
                Err(Error::Refused(_)) => entity,
                answer => return answer.map(|answer| answer.into_inner().group),
            }
        }
    };
    let request = node.request(v1::GetTopicRequest { name: topic.to_owned() });
    let answer = node.attempt(PATIENCE, api.get_topic(request)).await?;
    Ok(answer.into_inner().group)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
