//! Why an experiment could not be carried out. A broken promise is no error: it is a result.

use std::io;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    /// It was asked for wrongly.
    #[error("{0}")]
    Wrong(String),
    /// The cluster did not come up, or could not be asked.
    #[error("{0}")]
    Cluster(String),
    #[error("{what}: {error}")]
    Io { what: String, error: io::Error },
    #[error(transparent)]
    Client(#[from] client::Error),
}

impl Error {
    /// Says what was being done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |error| Error::Io { what, error }
    }
}
