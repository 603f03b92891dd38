//! Documents of management interfaces: kept, bounded in number and size, and never looked into.

use crate::machine::members::Members;
use crate::read::DIRECTORY_END;
use crate::{
    CatalogOutcome, DOCUMENT_BYTES_MAX, DOCUMENT_NAME_BYTES_MAX, DOCUMENTS_MAX, DocumentRow,
    DocumentText, Key, Outcome, Refusal, Row, Rows, Timestamp,
};

const WHAT: &str = "document";

pub(super) struct Documents<'s, R> {
    pub at: Timestamp,
    pub members: Members<'s, R>,
}

impl<R: Rows> Documents<'_, R> {
    /// In the place of the one of that name; or, if only a new one is wanted, not where there is one. The document as
    /// it then stands.
    pub fn put(
        &mut self,
        name: String,
        text: DocumentText,
        is_new: bool,
    ) -> Result<Outcome, Refusal> {
        self.members.formed()?;
        let refuse = |why: String| Err(Refusal::Argument { what: WHAT, why });
        if name.is_empty() || name.len() > DOCUMENT_NAME_BYTES_MAX {
            let bytes = name.len();
            return refuse(format!(
                "its name has {bytes} bytes, allowed is 1 to {DOCUMENT_NAME_BYTES_MAX}"
            ));
        }
        if text.0.len() > DOCUMENT_BYTES_MAX {
            let bytes = text.0.len();
            return refuse(format!("it has {bytes} bytes, allowed is {DOCUMENT_BYTES_MAX}"));
        }
        let key = Key::Document(name.clone());
        let before = match self.members.view.get(&key) {
            Some(Row::Document(row)) => Some(*row),
            _ => None,
        };
        let at = self.at;
        let row = match before {
            Some(row) if is_new || row.text == text => return Ok(told(row)),
            Some(row) => DocumentRow { text, modified_at: at, ..row },
            None => {
                self.check_count()?;
                DocumentRow { name, text, created_at: at, modified_at: at }
            }
        };
        self.members.view.put(key, Row::Document(Box::new(row.clone())));
        Ok(told(row))
    }

    /// A repeat changes nothing.
    pub fn remove(&mut self, name: String) -> Outcome {
        let key = Key::Document(name);
        if self.members.view.get(&key).is_some() {
            self.members.view.delete(key);
        }
        Outcome::Done
    }

    fn check_count(&mut self) -> Result<(), Refusal> {
        let (from, to) = (Key::Document(String::new()), Key::Document(DIRECTORY_END.to_string()));
        let used = self.members.view.keys(&from, &to, DOCUMENTS_MAX).len();
        match used < DOCUMENTS_MAX {
            true => Ok(()),
            false => {
                let (what, max) = ("the cluster (documents of management)", DOCUMENTS_MAX as u64);
                Err(Refusal::QuotaExceeded { what, used: used as u64, max })
            }
        }
    }
}

fn told(row: DocumentRow) -> Outcome {
    Outcome::Catalog(CatalogOutcome::Document(row))
}
