//! Documents: small texts that management interfaces keep with the cluster for their clients, each by a name. The
//! machine keeps them only; what they say is known to who wrote them.

use std::fmt;

use crate::Timestamp;

/// Of a cluster, at a time: a name and its text for every namespace, and as many beside them.
pub const DOCUMENTS_MAX: usize = 2_000;
pub const DOCUMENT_NAME_BYTES_MAX: usize = 300;
/// What one says, in bytes: as many tags as Azure lets a resource have.
pub const DOCUMENT_BYTES_MAX: usize = 48 * 1024;

/// What a document says: it may be a secret, so nothing prints it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DocumentText(pub String);

impl fmt::Debug for DocumentText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "DocumentText({} bytes)", self.0.len())
    }
}

/// A document, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRow {
    /// In lower case, where whoever keeps it wants it found in any.
    pub name: String,
    pub text: DocumentText,
    pub created_at: Timestamp,
    pub modified_at: Timestamp,
}
