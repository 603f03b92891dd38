//! Join tokens: an operator makes one, and a node that has it is let in, once.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{
    CatalogCommand, CatalogOutcome, FEATURE_LEVEL_JOIN_TOKENS, JoinFault, JoinTokenRow, Key,
    NodeRow, Outcome, Refusal, Row, Rows, Span, Timestamp,
};
use tokio::time::Instant;

use crate::edge::catalog::{self, Catalog};
use crate::edge::cluster::Cluster;
use crate::edge::feature_level::{check_newcomer, told_by_all};
use crate::edge::members::Joined;
use crate::edge::receiver::unexpected;
use crate::error::{Error, Result};

/// What the catalog's leader has applied, the others have within moments.
const HEARD_WITHIN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// A node that asks to be let in with a token.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// The id of its token.
    pub token: u64,
    /// Of the secret that it has shown.
    pub secret_hash: [u8; 32],
    /// Drawn for this question: a repeat is known by it.
    pub request: u64,
    /// Its number; 0: the next free one.
    pub node: u64,
    pub row: NodeRow,
    /// Up to which it understands what others write into logs; 0: it does not tell.
    pub feature_level: u32,
}

impl Cluster<'_> {
    /// Has a join token be good for so long; until when. A repeat answers the same.
    pub async fn create_join_token(
        self,
        id: u64,
        secret_hash: [u8; 32],
        lasts: Span,
        node: Option<u64>,
    ) -> Result<Timestamp> {
        self.check_known_to_all().await?;
        let create = CatalogCommand::CreateJoinToken { id, secret_hash, lasts, node };
        match Catalog::new(self.router()).ask(create, "", self.router().deadline()).await? {
            Outcome::Catalog(CatalogOutcome::JoinTokenCreated { expires_at }) => Ok(expires_at),
            other => Err(unexpected(&other, "".into())),
        }
    }

    /// Every join token that is remembered, as this node has heard of so far.
    pub fn join_tokens(self) -> BTreeMap<u64, JoinTokenRow> {
        catalog::join_tokens(&self.router().local.catalog())
    }

    /// A join token admits nobody any more, whether there is such a one or not.
    pub async fn revoke_join_token(self, id: u64) -> Result<()> {
        if self.formed()?.feature_level < FEATURE_LEVEL_JOIN_TOKENS {
            return Ok(()); // There never was one.
        }
        let revoke = CatalogCommand::RevokeJoinToken { id };
        Catalog::new(self.router()).propose(revoke, "", self.router().deadline()).await.map(drop)
    }

    /// Makes a node a part of the cluster, and uses its token up. A repeat answers the same. Whoever has no
    /// good token writes nothing into the log.
    pub async fn join(self, entrant: Entrant) -> Result<Result<Joined, JoinFault>> {
        let (router, known) = (self.router(), self.formed()?);
        let Some(row) = self.heard_of(&entrant).await else { return Ok(Err(JoinFault::Unknown)) };
        if let Some(fault) = fault(&row, &entrant, self.now_here().0) {
            return Ok(Err(fault));
        }
        check_newcomer(&known, entrant.feature_level)?;
        let Entrant { token, secret_hash, request, node, row, .. } = entrant;
        let join =
            CatalogCommand::Join { token, secret_hash, request, node, row: Box::new(row.clone()) };
        let node = match Catalog::new(router).ask(join, "", router.deadline()).await? {
            Outcome::Catalog(CatalogOutcome::Joined { node }) => node,
            Outcome::Catalog(CatalogOutcome::NotJoined(fault)) => return Ok(Err(fault)),
            other => return Err(unexpected(&other, "".into())),
        };
        let mut nodes = catalog::nodes(&router.local.catalog());
        nodes.insert(node, row); // It may not be applied here yet.
        let nodes = nodes.into_iter().collect();
        Ok(Ok(Joined { cluster_id: known.cluster_id, node, nodes }))
    }

    /// The token with that secret. One that was made just now may not be applied here yet.
    async fn heard_of(self, entrant: &Entrant) -> Option<JoinTokenRow> {
        let router = self.router();
        let (mut pause, until) = (PAUSE, Instant::now() + HEARD_WITHIN);
        loop {
            let row = router.local.catalog().get(&Key::JoinToken(entrant.token));
            if let Some(Row::JoinToken(row)) = row
                && row.secret_hash == entrant.secret_hash
            {
                return Some(row);
            }
            if !router.wait(&mut pause, until).await {
                return None;
            }
        }
    }

    /// A node of a version that does not know join tokens could not read a log that has them.
    async fn check_known_to_all(self) -> Result<()> {
        if self.formed()?.feature_level >= FEATURE_LEVEL_JOIN_TOKENS {
            return Ok(());
        }
        let told = told_by_all(self.router()).await;
        match told.into_iter().find(|(_, told)| told.known < FEATURE_LEVEL_JOIN_TOKENS) {
            None => Ok(()),
            Some((node, _)) => {
                let why = format!(
                    "node {node} does not answer, or is of a version that knows none; start or upgrade it, \
                     then make the first token again"
                );
                Err(Error::new(Refusal::Argument { what: "join token", why }, ""))
            }
        }
    }
}

/// Why a token lets nobody in, as far as that is known here; the catalog decides.
fn fault(row: &JoinTokenRow, entrant: &Entrant, now: Timestamp) -> Option<JoinFault> {
    match &row.used {
        Some(used) if used.request == entrant.request => None,
        Some(used) => Some(JoinFault::Used { node: used.node }),
        None => {
            let is_over = now >= row.expires_at;
            is_over.then(|| JoinFault::Expired { ago: now.since(row.expires_at) })
        }
    }
}
