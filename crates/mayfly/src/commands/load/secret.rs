//! The secret that a coordinator and its workers share.

use std::path::PathBuf;

use crate::{files, terminal};

/// What workers are started with, and coordinators prove that they know.
#[derive(Debug, Default, clap::Args)]
pub(super) struct WorkerSecret {
    /// The secret of workers, in the environment rather than on the command line
    #[arg(long, env = "MAYFLY_WORKER_SECRET", hide_env_values = true, value_name = "SECRET")]
    worker_secret: Option<String>,
    /// A file that holds the secret of workers
    #[arg(long, env = "MAYFLY_WORKER_SECRET_FILE", value_name = "FILE")]
    worker_secret_file: Option<PathBuf>,
}

impl WorkerSecret {
    /// # Errors
    /// There is none, or two, or an empty one.
    pub fn read(&self) -> anyhow::Result<String> {
        let wrong = |told: String| Err(terminal::usage(told));
        let secret = match (&self.worker_secret, &self.worker_secret_file) {
            (None, None) => {
                return wrong(
                    "workers want a secret; set MAYFLY_WORKER_SECRET, or give --worker-secret-file, \
                     with the same on both sides"
                        .to_owned(),
                );
            }
            (Some(_), Some(_)) => {
                return wrong(
                    "--worker-secret (or MAYFLY_WORKER_SECRET) and --worker-secret-file are both given; keep one"
                        .to_owned(),
                );
            }
            (Some(secret), None) => secret.clone(),
            (None, Some(path)) => files::read_private(path)
                .map_err(|told| terminal::usage(format!("--worker-secret-file: {told}")))?,
        };
        match secret.trim() {
            "" => wrong("the secret of workers is empty".to_owned()),
            secret => Ok(secret.to_owned()),
        }
    }
}
