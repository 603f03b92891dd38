//! Documents of management interfaces, which the catalog keeps.

use std::ops::ControlFlow;
use std::sync::Arc;

use domain::{
    CatalogCommand, CatalogOutcome, DocumentRow, DocumentText, FEATURE_LEVEL_DOCUMENTS, Key,
    Outcome, Row, Rows,
};

use crate::edge::catalog::Catalog;
use crate::edge::cluster::Cluster;
use crate::edge::heard::heard;
use crate::edge::receiver::unexpected;
use crate::edge::router::Router;
use crate::error::Result;

const WHAT: &str = "documents of management";

/// The cluster's documents, by their names.
#[derive(Clone, Copy)]
pub struct Documents<'a> {
    router: &'a Arc<Router>,
}

impl<'a> Documents<'a> {
    pub(super) fn new(router: &'a Arc<Router>) -> Documents<'a> {
        Documents { router }
    }

    /// As this node has heard of it.
    pub fn get(self, name: &str) -> Option<DocumentRow> {
        match self.router.local.catalog().get(&Key::Document(name.to_owned())) {
            Some(Row::Document(row)) => Some(*row),
            _ => None,
        }
    }

    /// All whose names begin so, in the order of their names, as this node has heard of them.
    pub fn list(self, prefix: &str) -> Vec<DocumentRow> {
        let rows = self.router.local.catalog();
        let to = Key::Document(format!("{prefix}{}", char::MAX));
        let mut found = Vec::new();
        rows.scan(&Key::Document(prefix.to_owned()), &to, &mut |_, row| {
            if let Row::Document(row) = row {
                found.push(*row);
            }
            ControlFlow::Continue(())
        });
        found
    }

    /// Keeps a text in the place of the one of that name, or, if only a new one is wanted, unless there is one. The
    /// document as it then stands, once all nodes that answer know it.
    ///
    /// # Errors
    /// Refused where the name or the text is too long, there are too many, or a node of the cluster knows no documents.
    pub async fn put(self, name: &str, text: String, is_new: bool) -> Result<DocumentRow> {
        Cluster::new(self.router).of_level(FEATURE_LEVEL_DOCUMENTS, WHAT).await?;
        let (own, text) = (name.to_owned(), DocumentText(text));
        let put = CatalogCommand::PutDocument { name: own, text, is_new };
        let asked = Catalog::new(self.router).ask(put, "", self.router.deadline()).await?;
        let Outcome::Catalog(CatalogOutcome::Document(row)) = asked else {
            return Err(unexpected(&asked, "".into()));
        };
        heard(self.router, || {
            self.get(name).is_some_and(|here| here == row || here.modified_at > row.modified_at)
        })
        .await;
        Ok(row)
    }

    /// Forgets the one of that name, if there is one. Returns as [`Documents::put`].
    ///
    /// # Errors
    /// As [`Documents::put`].
    pub async fn remove(self, name: &str) -> Result<()> {
        Cluster::new(self.router).of_level(FEATURE_LEVEL_DOCUMENTS, WHAT).await?;
        let remove = CatalogCommand::RemoveDocument { name: name.to_owned() };
        Catalog::new(self.router).ask(remove, "", self.router.deadline()).await?;
        heard(self.router, || self.get(name).is_none()).await;
        Ok(())
    }
}
