//! How a bench tells of its progress while it runs, and of what went wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

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

    /// Tells what is going on, how much of it is done, and a line of figures.
    pub fn tell(&self, phase: &str, share: f64, figures: &str) {
        (self.0)(phase, share.clamp(0.0, 1.0), figures);
    }
}

/// Errors by name, counted by any task.
#[derive(Default)]
pub(crate) struct Errors(Mutex<BTreeMap<String, u64>>);

impl Errors {
    /// Counts an error that befell so many messages.
    pub fn count(&self, error: &client::Error, messages: u64) {
        self.count_named(error_name(error), messages);
    }

    /// Counts what went wrong although nothing was refused.
    pub fn count_named(&self, name: &str, messages: u64) {
        let mut errors = self.0.lock().unwrap_or_else(|poison| poison.into_inner());
        *errors.entry(name.to_owned()).or_default() += messages;
    }

    /// Those counted so far.
    pub fn counted(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner()).clone()
    }
}

/// What an error is counted under.
pub fn error_name(error: &client::Error) -> &str {
    match error {
        // Whatever made it doubtful: it is no refusal.
        client::Error::PerhapsDone(_) => "perhaps done",
        _ if !error.name().is_empty() => error.name(),
        client::Error::Refused(_) => "refused",
        client::Error::NotDone(_) => "not done",
    }
}

/// Counted errors as the line of a report.
pub(crate) struct ErrorLine<'a>(pub &'a BTreeMap<String, u64>);

impl fmt::Display for ErrorLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return writeln!(f, "  errors       none");
        }
        let errors: Vec<String> =
            self.0.iter().map(|(name, count)| format!("{count} {name}")).collect();
        writeln!(f, "  errors       {}", errors.join(", "))
    }
}
