//! Errors of decoding.

use thiserror::Error;

/// Why bytes have no meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// Cut short, damaged, or never one of ours.
    #[error("not a valid encoding: {what}")]
    Corrupt { what: &'static str },
    /// Written by a newer version: the bytes may be sound, this binary is too old to read them.
    #[error("{what} has format {found}, this version knows up to {newest}; upgrade this node")]
    Newer { what: &'static str, found: u8, newest: u8 },
}

impl Error {
    pub(crate) const fn corrupt(what: &'static str) -> Error {
        Error::Corrupt { what }
    }
}
