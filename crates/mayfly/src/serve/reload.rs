//! What of the configuration may change while a node runs.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::ServeArgs;

/// How often the configuration is looked at; it is small.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A part of the configuration that a running node takes over.
pub trait Reload: Send {
    /// What it is, as the subject of a sentence.
    fn name(&self) -> &'static str;

    /// Reads it once more, and takes over what is other than before. `is_asked`: somebody waits for a word.
    /// The error is one line, and leaves it as it was.
    fn reload(&mut self, args: &ServeArgs, is_asked: bool) -> Result<(), String>;
}

/// From now on a hangup asks for files to be read again, where there are such, and ends no node.
pub fn outlive_hangup() -> io::Result<()> {
    // Whatever becomes of who listens: once it is registered, the signal's default is gone.
    signal(SignalKind::hangup()).map(drop)
}

/// Reads for ever, and at once on SIGHUP. What is wrong is told once, and again to who asks.
pub async fn keep_fresh(args: ServeArgs, mut parts: Vec<Box<dyn Reload>>) {
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    let mut told = Wrong::new();
    loop {
        let is_asked = tokio::select! {
            _ = asked.recv() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let wrong = reload(&mut parts, &args, is_asked);
        // Files are replaced one after the other: the next look may find them whole.
        for (why, names) in wrong.iter().filter(|(why, _)| is_asked || !told.contains_key(*why)) {
            tracing::warn!("{} stay as they were: {why}", names.join(", "));
        }
        told = wrong;
    }
}

/// What could not be read, by the reason.
type Wrong = BTreeMap<String, Vec<&'static str>>;

fn reload(parts: &mut [Box<dyn Reload>], args: &ServeArgs, is_asked: bool) -> Wrong {
    let mut wrong = Wrong::new();
    for part in parts {
        if let Err(why) = part.reload(args, is_asked) {
            wrong.entry(why).or_default().push(part.name());
        }
    }
    wrong
}
