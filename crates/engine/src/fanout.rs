//! How many copies a publish makes: what fills a log entry is not messages alone.

use std::collections::BTreeMap;

use domain::EntityId;

/// Most copies of one message, by topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fanout {
    topics: BTreeMap<EntityId, u64>,
}

impl Fanout {
    pub fn set(&mut self, topic: EntityId, copies_max: u64) {
        self.topics.insert(topic, copies_max);
    }

    pub fn deleted(&mut self, entity: EntityId) {
        self.topics.remove(&entity);
    }

    pub fn is_topic(&self, entity: EntityId) -> bool {
        self.topics.contains_key(&entity)
    }

    /// 1 of what is no topic, or has no subscriptions.
    pub fn copies_max(&self, entity: EntityId) -> u64 {
        self.topics.get(&entity).map_or(1, |copies| (*copies).max(1))
    }
}
