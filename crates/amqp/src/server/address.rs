//! Which node an address names (LINK-1, LINK-2).

use domain::{Refusal, SubQueue, split_subscription_path};

use crate::{cbs, management};

/// A node of this broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Cbs,
    Entity(Entity),
    Management(Entity),
}

/// A queue, topic or subscription, or one of its dead-letter queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entity {
    /// As the client wrote it, a subscription's path with its topic; the broker compares without case.
    pub name: String,
    pub sub: SubQueue,
}

const DEAD_LETTER: &str = "/$deadletterqueue";
const TRANSFER_DEAD_LETTER: &str = "/$transfer/$deadletterqueue";

impl Node {
    /// Clients write an address bare, with a leading slash or as a URL, and encode what they like.
    ///
    /// # Errors
    /// [`Refusal::NotSupported`] for a kind of node that is not served.
    pub fn parse(address: &str) -> Result<Node, Refusal> {
        let path = auth::addressed(address);
        let path = path.as_str();
        if path.eq_ignore_ascii_case(cbs::ADDRESS) {
            return Ok(Node::Cbs);
        }
        match strip_suffix(path, management::SUFFIX) {
            Some(path) => Entity::parse(path).map(Node::Management),
            None => Entity::parse(path).map(Node::Entity),
        }
    }
}

impl Entity {
    /// The entity at an address; `None` if that is no entity's.
    pub fn at(address: &str) -> Option<Entity> {
        match Node::parse(address) {
            Ok(Node::Entity(entity)) => Some(entity),
            Ok(Node::Cbs | Node::Management(_)) | Err(_) => None,
        }
    }

    fn parse(path: &str) -> Result<Entity, Refusal> {
        if let Some(name) = strip_suffix(path, TRANSFER_DEAD_LETTER) {
            return Ok(Entity { name: name.to_owned(), sub: SubQueue::TransferDeadLetter });
        }
        Ok(match strip_suffix(path, DEAD_LETTER) {
            Some(name) => Entity { name: name.to_owned(), sub: SubQueue::DeadLetter },
            None => Entity { name: path.to_owned(), sub: SubQueue::Main },
        })
    }

    /// Topic and name, if it is a subscription.
    pub fn subscription(&self) -> Option<(&str, &str)> {
        split_subscription_path(&self.name)
    }

    /// What rights are asked for: that of what is opened, however its address was written.
    pub fn path(&self) -> String {
        let sub = match self.sub {
            SubQueue::Main | SubQueue::Transfer => "",
            SubQueue::DeadLetter => DEAD_LETTER,
            SubQueue::TransferDeadLetter => TRANSFER_DEAD_LETTER,
        };
        format!("{}{sub}", self.name)
    }

    pub fn is_same(&self, other: &Entity) -> bool {
        self.sub == other.sub && self.name.to_lowercase() == other.name.to_lowercase()
    }
}

fn strip_suffix<'a>(path: &'a str, suffix: &str) -> Option<&'a str> {
    let at = path.len().checked_sub(suffix.len())?;
    let (rest, end) = path.split_at_checked(at)?;
    end.eq_ignore_ascii_case(suffix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(name: &str, sub: SubQueue) -> Entity {
        Entity { name: name.to_owned(), sub }
    }

    /// LINK-1, LINK-2: every form of an address seen from an SDK.
    #[test]
    fn link_1_link_2_an_address_names_its_node_in_every_form() {
        let main = |name| Ok(Node::Entity(entity(name, SubQueue::Main)));
        let dead = |name| Ok(Node::Entity(entity(name, SubQueue::DeadLetter)));
        for (address, node) in [
            ("$cbs", Ok(Node::Cbs)),
            ("q", main("q")),
            ("/q", main("q")),
            ("amqps://localhost:5674/Sales/q", main("Sales/q")),
            ("amqp://localhost", main("")),
            ("/sales%2Fq", main("sales/q")),
            ("q/$DeadLetterQueue", dead("q")),
            ("amqps://h/q/$deadletterqueue", dead("q")),
            ("q/$management", Ok(Node::Management(entity("q", SubQueue::Main)))),
            (
                "q/$deadletterqueue/$management",
                Ok(Node::Management(entity("q", SubQueue::DeadLetter))),
            ),
            (
                "q/$Transfer/$DeadLetterQueue",
                Ok(Node::Entity(entity("q", SubQueue::TransferDeadLetter))),
            ),
            ("é/$cbs", main("é/$cbs")),
            ("t/Subscriptions/s", main("t/Subscriptions/s")),
            ("/t/subscriptions/s/$deadletterqueue", dead("t/subscriptions/s")),
        ] {
            assert_eq!(Node::parse(address), node, "{address}");
        }
    }
}
