//! One record, and how it is written.

use std::net::SocketAddr;

use auth::Principal;
use domain::{Excerpt, Namespace};
use jiff::Timestamp;
use serde::Serialize;

use crate::action::Action;
use crate::outcome::Outcome;

/// What a client spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Amqp,
    Http,
    Grpc,
}

impl Protocol {
    /// In a record, and as a label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Amqp => "amqp",
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
        }
    }

    /// For people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Protocol::Amqp => "AMQP",
            Protocol::Http => "HTTP",
            Protocol::Grpc => "gRPC",
        }
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub protocol: Protocol,
    pub address: Option<SocketAddr>,
    /// `None`: it proved nothing.
    pub principal: Option<Principal>,
    /// Where what he asks for is.
    pub namespace: Namespace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// By this node's clock: the cluster's time may have been moved.
    pub at: Timestamp,
    /// `None`: the trail tells of itself, or of many.
    pub caller: Option<Caller>,
    /// A key that there is, which the proof that was refused names.
    pub named_key: Option<String>,
    pub action: Action,
    /// An entity, a node or a group; empty: none.
    pub object: String,
    pub outcome: Outcome,
    /// So many were alike, this one included.
    pub count: u64,
}

impl Record {
    pub fn new(action: Action, object: &str, outcome: Outcome) -> Record {
        Record {
            at: Timestamp::now(),
            caller: None,
            named_key: None,
            action,
            object: Excerpt(object).to_string(),
            outcome,
            count: 1,
        }
    }

    /// As it is told.
    pub fn line(&self, node: u64) -> Line<'_> {
        let principal = self.caller.as_ref().and_then(|caller| caller.principal.as_ref());
        let (kind, key_of, certificate) = match principal {
            None => ("nobody", None, None),
            Some(Principal::Anyone) => ("anyone", None, None),
            Some(Principal::Key { .. }) => ("key", None, None),
            Some(Principal::NamespaceRule { .. }) => ("namespace-rule", None, None),
            Some(Principal::Rule { entity, .. }) => ("rule", Some(domain::told_name(entity)), None),
            Some(Principal::Certificate { subject, .. }) => ("certificate", None, Some(&**subject)),
            Some(Principal::WebToken { .. }) => ("web-token", None, None),
            Some(Principal::JoinToken { .. }) => ("join-token", None, None),
        };
        let of_web_token = match principal {
            Some(Principal::WebToken { issuer, subject }) => Some((&**issuer, &**subject)),
            _ => None,
        };
        Line {
            at: self.at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            node,
            protocol: self.caller.as_ref().map(|caller| caller.protocol.name()),
            address: self.caller.as_ref().and_then(|caller| caller.address),
            principal: self.caller.as_ref().map(|_| kind),
            key: match principal {
                Some(Principal::WebToken { .. }) => None,
                _ => principal.and_then(Principal::key_name).or(self.named_key.as_deref()),
            },
            token: match principal {
                Some(Principal::JoinToken { id }) => Some(id),
                _ => None,
            },
            subject: of_web_token.map(|(_, subject)| subject),
            issuer: of_web_token.map(|(issuer, _)| issuer),
            key_of,
            certificate,
            action: self.action.name(),
            namespace: self
                .caller
                .as_ref()
                .map(|caller| &caller.namespace)
                .filter(|it| !it.is_default())
                .map(Namespace::as_str),
            object: Some(self.object.as_str()).filter(|object| !object.is_empty()),
            outcome: self.outcome.name(),
            reason: self.outcome.why(),
            count: self.count,
        }
    }
}

/// What stands in a file, or in the log. What there is nothing to say of is left out.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    pub at: String,
    pub node: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_of: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<&'a str>,
    pub action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<&'a str>,
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    #[serde(skip_serializing_if = "is_one")]
    pub count: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_one(count: &u64) -> bool {
    *count == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: who, and how that stands in a record.
    #[test]
    fn a_record_says_who_when_what_and_what_came_of_it() {
        let at: Timestamp = "2026-01-02T03:04:05.067891Z".parse().expect("an instant");
        let caller = |principal: Option<Principal>| {
            let address = Some("10.0.0.1:4321".parse().expect("an address"));
            let namespace = Namespace::DEFAULT;
            Some(Caller { protocol: Protocol::Grpc, address, principal, namespace })
        };
        for (principal, who) in [
            (None, r#""principal":"nobody""#),
            (Some(Principal::Anyone), r#""principal":"anyone""#),
            (Some(Principal::Key { name: "k".into() }), r#""principal":"key","key":"k""#),
            (
                Some(Principal::NamespaceRule { namespace: "n".into(), name: "r".into() }),
                r#""principal":"namespace-rule","key":"r""#,
            ),
            (
                Some(Principal::Rule { entity: "q".into(), name: "r".into() }),
                r#""principal":"rule","key":"r","key_of":"q""#,
            ),
            (
                Some(Principal::Certificate { subject: "CN=c".into(), key: "k".into() }),
                r#""principal":"certificate","key":"k","certificate":"CN=c""#,
            ),
            (
                Some(Principal::WebToken { issuer: "https://i".into(), subject: "s".into() }),
                r#""principal":"web-token","subject":"s","issuer":"https://i""#,
            ),
            (
                Some(Principal::JoinToken { id: "0f".into() }),
                r#""principal":"join-token","token":"0f""#,
            ),
        ] {
            let refused = Outcome::Refused("MessagingEntityAlreadyExists".into());
            let record = Record::new(Action::EntityCreate, "or\"ders\n", refused);
            let record = Record { at, caller: caller(principal), ..record };
            let told = serde_json::to_string(&record.line(2)).expect("it is JSON");
            let expected = format!(
                "{{\"at\":\"2026-01-02T03:04:05.067Z\",\"node\":2,\"protocol\":\"grpc\",\
                 \"address\":\"10.0.0.1:4321\",{who},\"action\":\"entity.create\",\
                 \"object\":\"or\\\"ders\\n\",\"outcome\":\"refused\",\
                 \"reason\":\"MessagingEntityAlreadyExists\"}}"
            );
            assert_eq!(told, expected);
        }
        let lost = Record { at, count: 7, ..Record::new(Action::RecordsDrop, "", Outcome::Done) };
        let told = serde_json::to_string(&lost.line(1)).expect("it is JSON");
        let expected = r#"{"at":"2026-01-02T03:04:05.067Z","node":1,"action":"records.drop","outcome":"done","count":7}"#;
        assert_eq!(told, expected);
        let long = Record::new(Action::EntityCreate, &"x".repeat(40_000), Outcome::Done);
        assert!(long.object.len() < 200);
    }
}
