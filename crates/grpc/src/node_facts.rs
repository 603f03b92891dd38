//! What a node tells other nodes for operators, in the messages of the native API: the connections of its clients.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use limits::{ConnectionId, ConnectionInfo, Ledger, LinkRole};
use prost::Message;
use service::{EventPage, Events, NodeFacts};
use wire::v1;

/// Asked and told as the request and the response of the method.
pub(crate) const LIST_CONNECTIONS: &str = "mayfly.v1.Connections/ListConnections";
/// Asked as the request of the method. What is told is empty where there is no such connection.
pub(crate) const CLOSE_CONNECTION: &str = "mayfly.v1.Connections/CloseConnection";
/// Asked and told as the request and the response of the method.
pub(crate) const LIST_EVENTS: &str = "mayfly.v1.Events/ListEvents";
/// Asked as the request of the method, and told as its response.
pub(crate) const NODE_REPORT: &str = "mayfly.v1.Support/GetNodeReport";
/// What is told of a connection that is told to end.
const CLOSED: &[u8] = b"closed";

/// Most connections in a page.
pub(crate) const CONNECTIONS_PAGE_MAX: usize = 1_000;
/// Most events in an answer of one node.
const EVENTS_MAX: usize = 1_000;
/// A page with so many bytes is full.
const PAGE_BYTES_FULL: usize = 1 << 20;

/// What a node's process knows of itself, for those who help with a cluster. Nothing of it is a secret.
pub trait SelfReport: Debug + Send + Sync + 'static {
    /// The binary's version.
    fn version(&self) -> &'static str;

    /// In Prometheus' text format.
    fn metrics(&self) -> String;

    /// As a configuration file has them.
    fn settings(&self) -> String;

    /// Lines of the log since then (ms since the Unix epoch), the oldest first, and how many are kept no more.
    fn log_since(&self, since_ms: u64) -> (Vec<String>, u64);
}

/// Answers for one node.
#[derive(Clone, Debug)]
pub struct OwnFacts {
    node: u64,
    ledger: Ledger,
    events: Events,
    report: Option<Arc<dyn SelfReport>>,
}

impl OwnFacts {
    /// `ledger`: where the connections of the node's clients are; `events`: what it has told.
    pub fn new(node: u64, ledger: Ledger, events: Events) -> OwnFacts {
        OwnFacts { node, ledger, events, report: None }
    }

    /// The same, and what the process knows of itself.
    pub fn with_report(self, report: Arc<dyn SelfReport>) -> OwnFacts {
        OwnFacts { report: Some(report), ..self }
    }

    fn report(&self, asked: &v1::GetNodeReportRequest) -> Option<v1::NodeReport> {
        let report = self.report.as_ref()?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (log, log_lines_lost) = report.log_since(asked.log_since_ms);
        Some(v1::NodeReport {
            node: self.node,
            version: report.version().to_owned(),
            at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            metrics: report.metrics(),
            settings: report.settings(),
            log,
            log_lines_lost,
        })
    }

    fn events(&self, asked: v1::ListEventsRequest) -> v1::ListEventsResponse {
        let v1::ListEventsRequest { since_ms, cursors } = asked;
        let (node, run) = (self.node, self.events.run());
        // Of an earlier process nothing is kept: whoever knew it has all of this one's before him.
        let known = cursors.iter().find(|cursor| cursor.node == node && cursor.run == run);
        let after = known.map_or(0, |cursor| cursor.number);
        let EventPage { events, last, lost, more } = self.events.after(after, since_ms, EVENTS_MAX);
        let shown = events.into_iter().map(|event| v1::ClusterEvent {
            node,
            at_ms: event.at_ms,
            kind: event.kind.to_owned(),
            about: event.about,
            text: event.text,
            by: event.by,
        });
        v1::ListEventsResponse {
            events: shown.collect(),
            cursors: vec![v1::EventCursor { node, run, number: last }],
            more,
            untold: Vec::new(),
            lost: (lost > 0).then_some(v1::LostEvents { node, count: lost }).into_iter().collect(),
        }
    }

    fn list(&self, asked: &v1::ListConnectionsRequest) -> v1::ListConnectionsResponse {
        let after = connection_id(&asked.after).map(|(_, id)| id);
        // One more, to know whether there is one.
        let found = self.ledger.connections(after, CONNECTIONS_PAGE_MAX + 1);
        let mut page = v1::ListConnectionsResponse::default();
        let mut bytes = 0;
        for info in found {
            if page.connections.len() == CONNECTIONS_PAGE_MAX || bytes >= PAGE_BYTES_FULL {
                page.more = true;
                break;
            }
            let told = shown(self.node, info);
            bytes += told.encoded_len();
            page.connections.push(told);
        }
        page
    }
}

impl NodeFacts for OwnFacts {
    fn answer(&self, question: &str, asked: Bytes) -> Option<Bytes> {
        match question {
            LIST_CONNECTIONS => {
                let asked = v1::ListConnectionsRequest::decode(asked).ok()?;
                Some(self.list(&asked).encode_to_vec().into())
            }
            CLOSE_CONNECTION => {
                let asked = v1::CloseConnectionRequest::decode(asked).ok()?;
                let own = connection_id(&asked.id).filter(|(node, _)| *node == self.node);
                let is_closed = own.is_some_and(|(_, id)| self.ledger.close(id));
                Some(Bytes::from_static(if is_closed { CLOSED } else { b"" }))
            }
            LIST_EVENTS => {
                let asked = v1::ListEventsRequest::decode(asked).ok()?;
                Some(self.events(asked).encode_to_vec().into())
            }
            NODE_REPORT => {
                let asked = v1::GetNodeReportRequest::decode(asked).ok()?;
                Some(self.report(&asked)?.encode_to_vec().into())
            }
            _ => None,
        }
    }

    fn connections(&self) -> Option<u64> {
        Some(self.ledger.connections_count())
    }
}

/// The node of a connection, and which of its own it is.
pub(crate) fn connection_id(id: &str) -> Option<(u64, ConnectionId)> {
    let (node, id) = id.split_once('-')?;
    Some((node.parse().ok().filter(|node| *node != 0)?, id.parse().ok()?))
}

fn shown(node: u64, info: ConnectionInfo) -> v1::Connection {
    let ConnectionInfo { id, front_end, origin, opened_at_ms, principal, client, .. } = info;
    let client = client.unwrap_or_default();
    let key_name = principal.as_ref().and_then(|principal| principal.key_name());
    v1::Connection {
        id: format!("{node}-{id}"),
        node,
        protocol: front_end.name().to_owned(),
        web_socket: origin.is_web_socket,
        tls: origin.is_tls,
        peer: origin.peer.to_string(),
        opened_at_ms,
        key_name: key_name.unwrap_or_default().to_owned(),
        principal: match &principal {
            Some(principal) if key_name.is_some() => principal.to_string(),
            Some(_) | None => String::new(),
        },
        client_name: client.name,
        client_product: client.product,
        links: info
            .links
            .iter()
            .map(|link| v1::ConnectionLink {
                role: role(link.role).into(),
                address: link.address.to_string(),
            })
            .collect(),
        links_count: u32::try_from(info.links_count).unwrap_or(u32::MAX),
        received_bytes: info.received_bytes,
        sent_bytes: info.sent_bytes,
    }
}

fn role(role: LinkRole) -> v1::LinkRole {
    match role {
        LinkRole::Sends => v1::LinkRole::Sends,
        LinkRole::Receives => v1::LinkRole::Receives,
        LinkRole::Asks => v1::LinkRole::Asks,
    }
}

#[cfg(test)]
mod tests {
    use limits::{FrontEnd, Origin};

    use super::*;

    #[test]
    fn events_are_told_from_where_somebody_was_and_all_of_another_process() {
        let events = Events::default();
        let facts = OwnFacts::new(3, Ledger::default(), events.clone());
        let list = |cursors: Vec<v1::EventCursor>| {
            let asked = v1::ListEventsRequest { since_ms: 0, cursors };
            let told = facts.answer(LIST_EVENTS, asked.encode_to_vec().into());
            v1::ListEventsResponse::decode(told.expect("it is known")).expect("events")
        };
        for name in ["a", "b"] {
            events.tell("entity.create", name, format!("'{name}' is created"), "k".to_owned());
        }
        let first = list(Vec::new());
        assert_eq!((first.events.len(), first.events[0].node, first.more), (2, 3, false));
        assert_eq!(list(first.cursors.clone()).events, []);
        events.tell("entity.delete", "a", "'a' is deleted".to_owned(), String::new());
        assert_eq!(list(first.cursors.clone()).events[0].text, "'a' is deleted");
        let [cursor] = first.cursors[..] else { panic!("one cursor") };
        for other in [
            v1::EventCursor { run: cursor.run + 1, ..cursor },
            v1::EventCursor { node: 4, ..cursor },
        ] {
            assert_eq!(list(vec![other]).events.len(), 3);
        }
    }

    #[test]
    fn connections_are_told_by_the_page_and_closed_by_their_ids() {
        let ledger = Ledger::default();
        let facts = OwnFacts::new(3, ledger.clone(), Events::default());
        let origin = Origin::plain(([10, 0, 0, 1], 40_000).into());
        let open = |_| ledger.open(FrontEnd::Amqp, origin).expect("a place");
        let held: Vec<_> = (0..CONNECTIONS_PAGE_MAX + 2).map(open).collect();
        let page = |after: &str| {
            let asked = v1::ListConnectionsRequest { node: 3, after: after.to_owned() };
            let told = facts.answer(LIST_CONNECTIONS, asked.encode_to_vec().into());
            v1::ListConnectionsResponse::decode(told.expect("it is known")).expect("a page")
        };
        let first = page("");
        assert_eq!((first.connections.len(), first.more), (CONNECTIONS_PAGE_MAX, true));
        let last = &first.connections[CONNECTIONS_PAGE_MAX - 1].id;
        let second = page(last);
        assert_eq!((second.connections.len(), second.more), (2, false));

        let close = |id: &str| {
            let asked = v1::CloseConnectionRequest { id: id.to_owned() };
            let told = facts.answer(CLOSE_CONNECTION, asked.encode_to_vec().into());
            !told.expect("it is known").is_empty()
        };
        assert!(close(last));
        let of_another = last.replacen("3-", "4-", 1);
        for wrong in ["", "3", "x", of_another.as_str()] {
            assert!(!close(wrong), "{wrong}");
        }
        drop(held);
        assert!(!close(last), "it is gone");
        assert_eq!(facts.answer("what is that", Bytes::new()), None);
    }
}
