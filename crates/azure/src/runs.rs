//! Which deployments this node carries out: each once, and not too many at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// At a time; a client that asks for more is told to ask later.
const RUNS_MAX: usize = 8;

#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<Mutex<BTreeSet<String>>>);

/// That this node carries one out, for as long as this is kept.
pub(crate) struct Permit {
    runs: Runs,
    run: String,
}

impl Runs {
    /// None: it does already, or does as many as it may.
    pub fn begin(&self, run: &str) -> Option<Permit> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may_begin = runs.len() < RUNS_MAX && runs.insert(run.to_owned());
        may_begin.then(|| Permit { runs: self.clone(), run: run.to_owned() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut runs = self.runs.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.remove(&self.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_carried_out_once_at_a_time() {
        let runs = Runs::default();
        let first = runs.begin("a");
        assert!(first.is_some() && runs.begin("a").is_none());
        drop(first);
        let all: Vec<Option<Permit>> =
            (0..RUNS_MAX).map(|run| runs.begin(&run.to_string())).collect();
        assert!(all.iter().all(Option::is_some) && runs.begin("a").is_none());
    }
}
