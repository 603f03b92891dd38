//! What people see: lines, tables, progress. Colour and motion only where a person looks.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::OwoColorize;
use thiserror::Error;

/// Wrong usage: exit code 2.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// An error of wrong usage.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// One line on standard error.
pub fn complain(message: &str) {
    anstream::eprintln!("{} {}", "mayfly:".red().bold(), message);
}

/// Something a person should know though all is well.
pub fn note(message: &str) {
    anstream::eprintln!("{} {}", "mayfly:".cyan(), message);
}

/// Exit code of a node that was removed from its cluster: starting it again is of no use.
pub const REMOVED: u8 = 3;
/// Exit code of a node whose replicas have all stopped: starting it again is all that helps.
pub const STOPPED: u8 = 4;

/// Every replica of this node has stopped, and nothing but a new start brings them back.
#[derive(Debug, Error)]
#[error(
    "every group of this node has stopped, for the reasons above, and starts with the node only; let \
     whoever supervises it start it again"
)]
pub struct AllStopped;

/// Tells what failed; the process' exit code.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken_pipe) {
        // Whoever read our output has seen enough.
        return ExitCode::SUCCESS;
    }
    let mut message = format!("{error:#}").replace('\n', " ");
    if let Some(client::Error::NotDone(detail)) = error.downcast_ref::<client::Error>()
        && detail.name.is_empty()
        && !detail.is_about_trust()
    {
        message += "; is a cluster running there? Start one with 'mayfly up', or name its nodes \
                    with --connect";
    }
    complain(&message);
    if error.is::<AllStopped>() {
        return ExitCode::from(STOPPED);
    }
    ExitCode::from(match error.downcast_ref::<replication::Error>() {
        Some(replication::Error::Removed { .. }) => REMOVED,
        _ if error.is::<Usage>() => 2,
        _ => 1,
    })
}

/// Prints one line to standard output. Fails where nobody reads any more.
pub fn line(text: impl std::fmt::Display) -> anyhow::Result<()> {
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    writeln!(out, "{text}")?;
    // Whoever follows a pipe sees each line when it is there.
    out.flush()?;
    Ok(())
}

/// Prints a JSON document, readable for people and programs.
pub fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

/// Whether a person looks at standard output.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// A table without lines: numbers (columns named in `right`) to the right.
pub fn table(header: &[&str], right: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().map(|name| name.to_uppercase()));
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// A bar of so many messages, on standard error; nothing where no person looks.
pub fn bar(what: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let style = ProgressStyle::with_template(
        "{msg} {wide_bar:.cyan/dim} {human_pos}/{human_len} {per_sec} {eta}",
    );
    bar.set_style(style.expect("the template is a constant"));
    bar.set_message(what.to_owned());
    bar
}

/// A bar of so many bytes, on standard error; nothing where no person looks.
pub fn byte_bar(what: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let style = ProgressStyle::with_template(
        "{msg} {wide_bar:.cyan/dim} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
    );
    bar.set_style(style.expect("the template is a constant"));
    bar.set_message(what.to_owned());
    bar
}

/// Bytes that come and nobody knows how many, on standard error; nothing where no person looks.
pub fn byte_count(what: &str) -> ProgressBar {
    let style = "{spinner:.cyan} {msg} {binary_bytes} {binary_bytes_per_sec}";
    let bar = spinner(what);
    bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
    bar
}

/// A bar of steps of which each takes its time, on standard error; nothing where no person looks.
pub fn steps(what: &str) -> ProgressBar {
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{msg} {wide_bar:.cyan/dim} {pos}/{len} {elapsed}");
    bar.set_style(style.expect("the template is a constant"));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A line that turns while something of unknown length is going on.
pub fn spinner(what: &str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner:.cyan} {msg}");
    spinner.set_style(style.expect("the template is a constant"));
    spinner.set_message(what.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}

/// 12,345.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 1.5 MiB.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{number} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        for (number, text) in [(17, "17 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn a_table_is_aligned() {
        let rows = vec![vec!["a".into(), "5".into()], vec!["long".into(), "1,000".into()]];
        assert_eq!(table(&["name", "n"], &[1], rows), "NAME      N\na         5\nlong  1,000");
    }
}
