//! A node as whoever starts it in a process of its own has to know it.

use std::path::Path;
use std::sync::Arc;

use super::ServeArgs;
use super::config::Config;
use super::join;

/// What a node's configuration comes to.
pub struct Ward(Config);

impl Ward {
    /// # Errors
    /// The node would not start, in one sentence.
    pub fn of(args: &ServeArgs) -> Result<Ward, String> {
        Config::load(args).map(Ward)
    }

    /// Whether experiments may be done with it.
    pub fn is_in_development_mode(&self) -> bool {
        self.0.development
    }

    /// What it asks of its peers, if anything.
    pub fn secret(&self) -> Option<&str> {
        self.0.secret.as_deref()
    }

    pub fn data_dir(&self) -> &Path {
        &self.0.data_dir
    }

    /// Its number in its cluster, once it was taken in.
    pub fn number(&self) -> Arc<dyn Fn() -> Option<u64> + Send + Sync> {
        let config = self.0.clone();
        Arc::new(move || join::node_of(&config))
    }
}
