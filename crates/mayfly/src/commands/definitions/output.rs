//! Where definitions go, and what is wrong with them.

use std::path::Path;

use definitions::Problem;

use crate::files::{self, Existing, Readers};
use crate::terminal;

/// To a file, for its owner alone if there are secrets in it, or to standard output.
pub fn write(text: &str, path: Option<&Path>, secrets: bool) -> anyhow::Result<()> {
    let readers = if secrets { Readers::Owner } else { Readers::All };
    match path {
        Some(path) => {
            files::write(path, text, readers, Existing::Replaced)?;
            terminal::line(format!("'{}' written", path.display()))
        }
        None => terminal::line(text.trim_end()),
    }
}

/// A line each, and that nothing came of it.
pub fn complain(problems: &[Problem]) {
    for problem in problems {
        // A parser may quote several lines.
        terminal::complain(&problem.to_string().replace('\n', " "));
    }
    match problems.len() {
        1 => terminal::complain("1 problem; nothing was changed"),
        count => terminal::complain(&format!("{count} problems; nothing was changed")),
    }
}
