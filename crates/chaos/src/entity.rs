//! What the checker must know of an entity to judge what happened to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What an entity is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Queue,
    Topic,
    /// `class`: takes only messages of this class; without, all.
    Subscription {
        topic: String,
        class: Option<String>,
    },
}

/// An entity as a workload made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// Its path, as clients name it.
    pub name: String,
    pub kind: Kind,
    pub lock_ms: u64,
    /// LOCK-21.
    pub deliveries_max: u32,
    /// TTL-17: what expires goes to the dead-letter queue; else it is dropped.
    pub dead_letters_expired: bool,
    pub sessions: bool,
    pub deduplicates: bool,
    /// FWD-1.
    pub forwards_to: Option<String>,
    /// IDLE-1: deleted when idle for so long.
    pub idle_ms: Option<u64>,
    /// Left alone for longer than that before the end: it must be gone then.
    pub vanishes: bool,
    /// Received from over AMQP: what is held goes back when the node ends that its holder is connected to
    /// (LOCK-28).
    #[serde(default)]
    pub hangs_on_connections: bool,
}

impl Entity {
    /// A queue with what is usual here: the shortest lock there is (LOCK-4), ten deliveries.
    pub fn queue(name: impl Into<String>) -> Entity {
        Entity {
            name: name.into(),
            kind: Kind::Queue,
            lock_ms: 5_000,
            deliveries_max: 10,
            dead_letters_expired: false,
            sessions: false,
            deduplicates: false,
            forwards_to: None,
            idle_ms: None,
            vanishes: false,
            hangs_on_connections: false,
        }
    }

    /// Whether messages rest here and are received from here.
    pub fn is_receivable(&self) -> bool {
        self.kind != Kind::Topic && self.forwards_to.is_none()
    }
}

/// All entities of a run by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entities(pub BTreeMap<String, Entity>);

impl Entities {
    pub fn get(&self, name: &str) -> Option<&Entity> {
        self.0.get(name)
    }

    pub fn insert(&mut self, entity: Entity) {
        self.0.insert(entity.name.clone(), entity);
    }

    /// Where a message of this class that is sent to `entity` comes to rest: at the end of the chain
    /// of forwards, or of each subscription's that takes it.
    pub fn places(&self, entity: &str, class: Option<&str>) -> Vec<String> {
        let Some(found) = self.get(entity) else { return Vec::new() };
        if found.kind != Kind::Topic {
            return vec![self.end_of_chain(found)];
        }
        let takes = |it: &&Entity| match &it.kind {
            Kind::Subscription { topic, class: wanted } => {
                topic == entity && wanted.as_deref().is_none_or(|wanted| Some(wanted) == class)
            }
            Kind::Queue | Kind::Topic => false,
        };
        self.0.values().filter(takes).map(|it| self.end_of_chain(it)).collect()
    }

    fn end_of_chain(&self, from: &Entity) -> String {
        let mut at = from;
        // FWD-7: more hops than these are refused by the broker.
        for _ in 0..4 {
            match at.forwards_to.as_ref().and_then(|next| self.get(next)) {
                Some(next) => at = next,
                None => break,
            }
        }
        at.name.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_rests_at_the_end_of_its_chain_or_in_each_subscription_that_takes_it() {
        let mut all = Entities::default();
        let forwarding = |name: &str, to: &str| Entity {
            forwards_to: Some(to.to_owned()),
            ..Entity::queue(name)
        };
        all.insert(forwarding("a", "b"));
        all.insert(forwarding("b", "c"));
        all.insert(Entity::queue("c"));
        all.insert(Entity { kind: Kind::Topic, ..Entity::queue("t") });
        for (name, class) in [("t/all", None), ("t/red", Some("red".to_owned()))] {
            let kind = Kind::Subscription { topic: "t".into(), class };
            all.insert(Entity { kind, ..Entity::queue(name) });
        }
        assert_eq!(all.places("a", None), ["c"]);
        assert_eq!(all.places("t", Some("blue")), ["t/all"]);
        assert_eq!(all.places("t", Some("red")), ["t/all", "t/red"]);
        assert_eq!(all.places("nowhere", None), [""; 0]);
    }
}
