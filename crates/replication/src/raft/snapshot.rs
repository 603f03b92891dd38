//! What openraft carries about as a snapshot's data.

use super::state::ExportLease;

pub(crate) enum SnapshotData {
    /// A claim without bytes: so much is on disk here.
    Marker,
    /// Rows to be sent, as of one moment.
    Export(Box<Export>),
    /// Rows received, not yet in force.
    Import(Box<store::Import>),
}

pub(crate) struct Export {
    pub rows: store::Export,
    /// Keeps the entries that follow in the log until the rows are installed.
    pub lease: ExportLease,
}
