//! `mayfly man`: manual pages, which packages install. Who has the binary alone has `--help`, which tells the
//! same.

use std::path::PathBuf;

use anyhow::Context;

#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The directory they are written to, one file for each command
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub fn run(args: &ManArgs, command: clap::Command) -> anyhow::Result<()> {
    clap_mangen::generate_to(command, &args.dir)
        .with_context(|| format!("cannot write manual pages to '{}'", args.dir.display()))
}
