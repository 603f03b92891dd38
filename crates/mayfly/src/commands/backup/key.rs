//! `mayfly backup key`.

use std::path::PathBuf;

use backup::Key;

use crate::files::{self, Existing, Readers};
use crate::terminal;

#[derive(Debug, clap::Args)]
pub struct KeyFileArgs {
    /// A file that is not there
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub fn run(args: &KeyFileArgs) -> anyhow::Result<()> {
    files::write(&args.file, &Key::draw()?.to_text(), Readers::Owner, Existing::Kept)?;
    terminal::line(format!(
        "key written to {}; keep a copy elsewhere: backups made with it are read by nobody without it",
        args.file.display()
    ))
}
