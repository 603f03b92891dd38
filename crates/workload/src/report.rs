//! How a bench tells of its progress while it runs.

use std::sync::Arc;

/// Told now and then, from any task: what is going on, how much of it is done (0 to 1), and a line
/// of figures.
#[derive(Clone)]
pub struct Progress(Arc<Tell>);

type Tell = dyn Fn(&str, f64, &str) + Send + Sync;

impl Progress {
    pub fn new(tell: impl Fn(&str, f64, &str) + Send + Sync + 'static) -> Progress {
        Progress(Arc::new(tell))
    }

    /// Tells nobody.
    pub fn silent() -> Progress {
        Progress::new(|_, _, _| ())
    }

    pub(crate) fn tell(&self, phase: &str, share: f64, figures: &str) {
        (self.0)(phase, share.clamp(0.0, 1.0), figures);
    }
}
