//! Which node leads a queue's group. A route is a preference only: every node forwards.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::nodes::Nodes;
use crate::{Error, v1};

/// A leader learned this long ago is asked for again.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// A route is worth a short wait only: any node will do.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Queues whose groups are asked for at a time.
const LOOKUPS_MAX: usize = 64;

/// Groups of queues, which never change, and leaders of groups, which do.
pub(crate) struct Routes {
    groups: Mutex<HashMap<String, u32>>,
    lookups: Semaphore,
    leaders: Mutex<Leaders>,
    /// Held by whoever asks for the leaders, so that thousands of streams ask once.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Leaders {
    by_group: HashMap<u32, u64>,
    /// `None`: never, or it proved wrong since.
    learned_at: Option<Instant>,
    /// How often they were asked for.
    turns: u64,
}

impl Routes {
    pub fn new() -> Routes {
        Routes {
            groups: Mutex::default(),
            lookups: Semaphore::new(LOOKUPS_MAX),
            leaders: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// The node that leads the queue's group, where some node knows.
    pub async fn leader(&self, nodes: &Nodes, queue: &str) -> Option<u64> {
        let group = self.group(nodes, queue).await?;
        let asked = async {
            let route = self.ask(nodes, queue).await?;
            Some(route.leaders.iter().map(|led| (led.group, led.leader)).collect())
        };
        self.leader_of(group, asked).await
    }

    /// A group's leader by what was learned lately, else by what is `asked` now. Of many who would ask
    /// one does, and the others go by what it learned, be it nothing.
    async fn leader_of(
        &self,
        group: u32,
        asked: impl Future<Output = Option<HashMap<u32, u64>>>,
    ) -> Option<u64> {
        let turns = {
            let leaders = lock(&self.leaders);
            if leaders.learned_at.is_some_and(|at| at.elapsed() < FRESH_FOR) {
                return leaders.by_group.get(&group).copied();
            }
            leaders.turns
        };
        let _asking = self.asking.lock().await;
        if lock(&self.leaders).turns == turns {
            let by_group = asked.await;
            let mut leaders = lock(&self.leaders);
            leaders.turns += 1;
            leaders.learned_at = by_group.as_ref().map(|_| Instant::now());
            leaders.by_group = by_group.unwrap_or_default();
        }
        lock(&self.leaders).by_group.get(&group).copied()
    }

    /// What was learned proved wrong: ask again next time.
    pub fn forget_leaders(&self) {
        lock(&self.leaders).learned_at = None;
    }

    /// The queue was just created, in this group.
    pub fn learn_queue(&self, queue: &str, group: u32) {
        lock(&self.groups).insert(queue.to_lowercase(), group);
    }

    /// The queue is gone; another of its name may live in another group.
    pub fn forget_queue(&self, queue: &str) {
        lock(&self.groups).remove(&queue.to_lowercase());
    }

    async fn group(&self, nodes: &Nodes, queue: &str) -> Option<u32> {
        let name = queue.to_lowercase();
        let known = || lock(&self.groups).get(&name).copied();
        if let Some(group) = known() {
            return Some(group);
        }
        let _turn = self.lookups.acquire().await;
        if let Some(group) = known() {
            return Some(group);
        }
        let route = self.ask(nodes, queue).await?;
        lock(&self.groups).insert(name, route.group);
        Some(route.group)
    }

    /// What some node knows of a queue's place, and of the nodes: those that failed a moment ago are not
    /// worth the wait for a mere preference.
    async fn ask(&self, nodes: &Nodes, queue: &str) -> Option<v1::RouteResponse> {
        for node in nodes.order(None).into_iter().filter(|node| !node.is_avoided()) {
            let mut api = node.messaging();
            let request = node.request(v1::RouteRequest { queue: queue.to_owned() });
            match node.attempt(PATIENCE, api.route(request)).await {
                Ok(answer) => {
                    let route = answer.into_inner();
                    nodes.learn(
                        route.nodes.iter().map(|node| (node.id, node.grpc_address.as_str())),
                    );
                    return Some(route);
                }
                Err(Error::Refused(_)) => return None,
                Err(Error::NotDone(_) | Error::PerhapsDone(_)) => (),
            }
        }
        None
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn of_many_who_need_a_leader_one_asks() {
        let (routes, times) = (Routes::new(), AtomicU32::new(0));
        let everybody = async |answer: Option<u64>| {
            let asked = async || {
                times.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await; // So that all the others come meanwhile.
                answer.map(|leader| HashMap::from([(7, leader)]))
            };
            join_all((0..100).map(|_| routes.leader_of(7, asked()))).await
        };
        let asked = || times.swap(0, Ordering::Relaxed);

        assert_eq!((everybody(None).await, asked()), (vec![None; 100], 1));
        assert_eq!((everybody(Some(2)).await, asked()), (vec![Some(2); 100], 1));
        assert_eq!((everybody(Some(3)).await, asked()), (vec![Some(2); 100], 0), "it is fresh");
        routes.forget_leaders();
        assert_eq!((everybody(Some(3)).await, asked()), (vec![Some(3); 100], 1));
        assert_eq!(routes.leader_of(8, async { None }).await, None, "a group nobody leads");
    }
}
