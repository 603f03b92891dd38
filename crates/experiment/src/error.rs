//! Why an experiment could not be carried out. A broken invariant is no error: it is a result.

use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    /// The file, the target or a program is not as it has to be: in one sentence.
    #[error("{0}")]
    Wrong(String),
    #[error(transparent)]
    Cluster(#[from] chaos::Error),
    #[error(transparent)]
    Client(#[from] client::Error),
}

impl Error {
    /// Says what was being done when a file or a process refused.
    pub fn io(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.to_string();
        move |error| Error::Wrong(format!("{what}: {error}"))
    }
}
