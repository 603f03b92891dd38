//! Which entities a transaction may span (TX-5): one, unless the AMQP session of an operation has a
//! control link. Then the session's first link to an entity names the one that all others are reached
//! via, and from that one alone something is received in the session.

use std::collections::BTreeMap;

use amqp_protocol::engine::{LinkId, SessionId};
use domain::{ONE_ENTITY, Refusal};
use service::Reach;

use super::address::Entity;

/// Of a connection, by session.
#[derive(Default)]
pub(super) struct TransactionGroups(BTreeMap<SessionId, TransactionGroup>);

#[derive(Default)]
struct TransactionGroup {
    has_control: bool,
    /// The links that may turn out to be the first: those that wait for their answer, up to one that has
    /// been accepted. A link that is refused was none.
    candidates: Vec<Candidate>,
}

struct Candidate {
    link: LinkId,
    /// The queue or topic.
    entity: String,
    is_accepted: bool,
}

impl TransactionGroups {
    /// The session has a control link from here on, and what is received in it is held to the rule.
    pub fn add_control(&mut self, session: SessionId) {
        self.0.entry(session).or_default().has_control = true;
    }

    /// A link to an entity, or to its management node, is asked for. It counts until
    /// [`TransactionGroups::drop_link`] hears that it is gone without having been accepted.
    ///
    /// # Errors
    /// [`Refusal::InvalidOperation`]: it would receive from another entity than the session's first link.
    pub fn add_link(
        &mut self,
        session: SessionId,
        link: LinkId,
        entity: &Entity,
        is_receiver: bool,
    ) -> Result<(), Refusal> {
        let entity = top_level(entity);
        let group = self.0.entry(session).or_default();
        let is_elsewhere = group.via().is_some_and(|via| via != entity);
        if group.has_control && is_receiver && is_elsewhere {
            return Err(Refusal::InvalidOperation { why: ONE_ENTITY });
        }
        if !group.candidates.last().is_some_and(|last| last.is_accepted) {
            group.candidates.push(Candidate { link, entity, is_accepted: false });
        }
        Ok(())
    }

    pub fn accept_link(&mut self, session: SessionId, link: LinkId) {
        let Some(group) = self.0.get_mut(&session) else { return };
        if let Some(at) = group.candidates.iter().position(|candidate| candidate.link == link) {
            group.candidates[at].is_accepted = true;
            group.candidates.truncate(at + 1);
        }
    }

    /// One that was accepted stays the first of its session, whatever becomes of it.
    pub fn drop_link(&mut self, session: SessionId, link: LinkId) {
        if let Some(group) = self.0.get_mut(&session) {
            group.candidates.retain(|candidate| candidate.is_accepted || candidate.link != link);
        }
    }

    pub fn end_session(&mut self, session: SessionId) {
        self.0.remove(&session);
    }

    /// What an operation may reach that came on a link of the session.
    pub fn reach(&self, session: SessionId) -> Reach {
        let group = self.0.get(&session).filter(|group| group.has_control);
        match group.and_then(TransactionGroup::via) {
            Some(via) => Reach::Via(via.to_owned()),
            None => Reach::One,
        }
    }
}

impl TransactionGroup {
    fn via(&self) -> Option<&str> {
        self.candidates.first().map(|first| first.entity.as_str())
    }
}

/// TX-6: a subscription counts for its topic, a dead-letter queue for what it belongs to.
fn top_level(entity: &Entity) -> String {
    let name = entity.subscription().map_or(entity.name.as_str(), |(topic, _)| topic);
    name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use amqp_protocol::engine::{Config, Connection, Mechanism, Millis};

    use super::*;

    /// What happens in a session, by the numbers of its links.
    enum Step {
        Control,
        /// Asked for and accepted.
        Sender(usize, &'static str),
        Receiver(usize, &'static str),
        /// As these, refused for what is received elsewhere.
        Refused(usize, &'static str),
        /// Asked for, and not answered yet.
        Asked(usize, &'static str),
        Accepted(usize),
        Gone(usize),
    }

    #[test]
    fn tx_5_the_first_link_of_a_session_with_a_control_link_names_the_entity_between() {
        use Step::*;
        let table: &[(&[Step], Option<&str>)] = &[
            (&[Sender(0, "q")], None),
            (&[Control], None),
            (&[Control, Sender(0, "Q")], Some("q")),
            (&[Sender(0, "q"), Control], Some("q")),
            (&[Control, Receiver(0, "q"), Sender(1, "r"), Receiver(2, "q")], Some("q")),
            (&[Control, Sender(0, "q"), Refused(1, "r"), Receiver(2, "q")], Some("q")),
            (&[Control, Sender(0, "q"), Sender(1, "r"), Refused(2, "r")], Some("q")),
            (&[Control, Receiver(0, "q"), Receiver(1, "q/$DeadLetterQueue")], Some("q")),
            (
                &[Control, Receiver(0, "t/Subscriptions/a"), Receiver(1, "T/Subscriptions/b")],
                Some("t"),
            ),
            (
                &[Control, Receiver(0, "t/Subscriptions/a"), Refused(1, "u/Subscriptions/a")],
                Some("t"),
            ),
            // Received before anybody knew of transactions: it is refused in one (`Reach::Via`).
            (&[Receiver(0, "q"), Receiver(1, "r"), Control, Refused(2, "s")], Some("q")),
            // A link that is gone was the first all the same; one that never was is none.
            (&[Control, Receiver(0, "q"), Gone(0), Refused(1, "r")], Some("q")),
            (&[Control, Asked(0, "none"), Gone(0), Receiver(1, "r")], Some("r")),
            (&[Control, Asked(0, "q"), Sender(1, "r"), Refused(2, "r")], Some("q")),
            (&[Control, Asked(0, "q"), Sender(1, "r"), Gone(0), Receiver(2, "r")], Some("r")),
            (&[Control, Asked(0, "q"), Sender(1, "r"), Sender(2, "s"), Accepted(0)], Some("q")),
            (&[Control, Asked(0, "q"), Sender(1, "r"), Gone(1), Gone(0)], Some("r")),
        ];
        for (at, (steps, via)) in table.iter().enumerate() {
            let mut engine = engine();
            let session = engine.begin().expect("a channel is free");
            let other = engine.begin().expect("a channel is free");
            let links: Vec<LinkId> = (0..3).map(|n| link(&mut engine, session, n)).collect();
            let mut groups = TransactionGroups::default();
            for step in *steps {
                let mut add = |link: usize, name: &str, is_receiver| {
                    let entity = Entity::at(name).expect("an entity");
                    groups.add_link(session, links[link], &entity, is_receiver)
                };
                match *step {
                    Control => groups.add_control(session),
                    Sender(link, name) | Receiver(link, name) => {
                        let added = add(link, name, matches!(step, Receiver(..)));
                        assert_eq!(added, Ok(()), "row {at}: {name}");
                        groups.accept_link(session, links[link]);
                    }
                    Refused(link, name) => {
                        let refusal = Refusal::InvalidOperation { why: ONE_ENTITY };
                        assert_eq!(add(link, name, true), Err(refusal), "row {at}: {name}");
                    }
                    Asked(link, name) => assert_eq!(add(link, name, false), Ok(()), "row {at}"),
                    Accepted(link) => groups.accept_link(session, links[link]),
                    Gone(link) => groups.drop_link(session, links[link]),
                }
            }
            let expected = via.map_or(Reach::One, |via| Reach::Via(via.to_owned()));
            assert_eq!(groups.reach(session), expected, "row {at}");
            assert_eq!(groups.reach(other), Reach::One, "row {at}");
            groups.end_session(session);
            assert_eq!(groups.reach(session), Reach::One, "row {at}");
        }
    }

    fn engine() -> Connection {
        let config = Config {
            container_id: "c".into(),
            hostname: None,
            offered_capabilities: Default::default(),
            properties: None,
            limits: crate::Limits::default(),
        };
        Connection::client(config, Mechanism::Anonymous, Millis(0))
    }

    fn link(engine: &mut Connection, session: SessionId, number: usize) -> LinkId {
        let attach = amqp_protocol::codec::Attach::sender(&format!("link-{number}"), "q");
        engine.attach(session, attach).expect("the session is there")
    }
}
