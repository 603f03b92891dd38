//! Join tokens: made, revoked, and used up by the node that they admit. Use and admission are one entry.

use std::ops::ControlFlow;

use crate::catalog::FEATURE_LEVEL_JOIN_TOKENS;
use crate::machine::members::Members;
use crate::{
    CatalogOutcome, JoinFault, JoinTokenRow, Key, NodeRow, Outcome, Refusal, Row, Rows, Span,
    Timestamp, TokenUse,
};

/// Of a cluster; those that ended are forgotten in time.
const JOIN_TOKENS_MAX: usize = 1_000;
/// For so long it is told of a token that it has ended, or was used.
const REMEMBERED: Span = Span(24 * 3600 * 1000);
/// None is good for longer: it would be forgotten, and lie about.
const LASTS_MAX: Span = Span(30 * 24 * 3600 * 1000);

/// A node that asks to be let in.
pub(super) struct Joining {
    pub request: u64,
    /// 0: the next free number.
    pub node: u64,
    pub row: NodeRow,
}

pub(super) struct JoinTokens<'s, R> {
    pub at: Timestamp,
    pub members: Members<'s, R>,
}

impl<R: Rows> JoinTokens<'_, R> {
    pub fn create(
        &mut self,
        id: u64,
        secret_hash: [u8; 32],
        lasts: Span,
        node: Option<u64>,
    ) -> Result<Outcome, Refusal> {
        self.members.formed()?;
        if lasts == Span(0) || lasts > LASTS_MAX {
            return Err(Refusal::ArgumentOutOfRange {
                what: "how long a join token is good",
                value: format!("{} ms", lasts.0),
                allowed: "1 ms to 30 days",
            });
        }
        if let Some(node) = node {
            self.members.can_be(node)?;
        }
        let created =
            |expires_at| Ok(Outcome::Catalog(CatalogOutcome::JoinTokenCreated { expires_at }));
        match self.row(id) {
            Some(row) if row.secret_hash == secret_hash => return created(row.expires_at),
            Some(_) => {
                let why = "another has this id; make it anew".to_owned();
                return Err(Refusal::Argument { what: "join token", why });
            }
            None => self.make_room()?,
        }
        let expires_at = self.at.plus(lasts);
        let row = JoinTokenRow { secret_hash, expires_at, node, used: None };
        self.members.view.put(Key::JoinToken(id), Row::JoinToken(row));
        self.members.reach_feature_level(FEATURE_LEVEL_JOIN_TOKENS)?;
        created(expires_at)
    }

    pub fn revoke(&mut self, id: u64) -> Outcome {
        if self.row(id).is_some() {
            self.members.view.delete(Key::JoinToken(id));
        }
        Outcome::Done
    }

    pub fn join(
        &mut self,
        token: u64,
        secret_hash: [u8; 32],
        joining: Joining,
    ) -> Result<Outcome, Refusal> {
        let Joining { request, node: asked, row } = joining;
        let joined = |node| Ok(Outcome::Catalog(CatalogOutcome::Joined { node }));
        let no = |fault| Ok(Outcome::Catalog(CatalogOutcome::NotJoined(fault)));
        // Whoever does not know the secret is told nothing of the token.
        let Some(found) = self.row(token).filter(|found| found.secret_hash == secret_hash) else {
            return no(JoinFault::Unknown);
        };
        match found {
            JoinTokenRow { used: Some(used), .. } if used.request == request => {
                return joined(used.node);
            }
            JoinTokenRow { used: Some(used), .. } => {
                return no(JoinFault::Used { node: used.node });
            }
            JoinTokenRow { expires_at, .. } if self.at >= expires_at => {
                return no(JoinFault::Expired { ago: self.at.since(expires_at) });
            }
            JoinTokenRow { node: Some(of), .. } if of != asked => {
                return no(JoinFault::OtherNode { of, asked });
            }
            JoinTokenRow { .. } => (),
        }
        let node = match asked {
            0 => self.members.number_for(&row),
            asked => asked,
        };
        self.members.add_node(node, row)?;
        let used = Some(TokenUse { node, at: self.at, request });
        let row = Row::JoinToken(JoinTokenRow { used, ..found });
        self.members.view.replace(Key::JoinToken(token), row);
        joined(node)
    }

    fn row(&mut self, id: u64) -> Option<JoinTokenRow> {
        match self.members.view.get(&Key::JoinToken(id)) {
            Some(Row::JoinToken(row)) => Some(row),
            _ => None,
        }
    }

    /// Forgets what ended long ago. Refused where so many are left that nobody can mean them all.
    fn make_room(&mut self) -> Result<(), Refusal> {
        let (mut count, mut old, at) = (0, Vec::new(), self.at);
        let (from, to) = (Key::JoinToken(0), Key::JoinToken(u64::MAX));
        self.members.view.scan(&from, &to, &mut |key, row| {
            if let Row::JoinToken(row) = row {
                match at >= row.expires_at.plus(REMEMBERED) {
                    true => old.push(key.clone()),
                    false => count += 1,
                }
            }
            ControlFlow::Continue(())
        });
        for key in old {
            self.members.view.delete(key);
        }
        if count < JOIN_TOKENS_MAX {
            return Ok(());
        }
        let (what, used) = ("the cluster (join tokens)", count as u64);
        Err(Refusal::QuotaExceeded { what, used, max: JOIN_TOKENS_MAX as u64 })
    }
}
