//! `mayfly load compare`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use load::{Comparison, LoadReport};

use crate::terminal;

#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// The report, as JSON, that ratios are reckoned from
    #[arg(value_name = "ONE")]
    one: PathBuf,
    /// Another
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let comparison = Comparison::of(&read(&args.one)?, &read(&args.other)?);
    if args.json {
        terminal::json(&comparison)?;
    } else {
        terminal::line(comparison.to_string().trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<LoadReport> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| terminal::usage(format!("cannot read '{name}': {error}")))?;
    let report = serde_json::from_str(&text);
    report.map_err(|error| {
        terminal::usage(format!("'{name}' is no report of mayfly load run --json: {error}"))
    })
}
