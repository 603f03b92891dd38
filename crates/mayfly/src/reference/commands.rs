//! `docs/reference/commands.md`: every command with its help, as a page.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{cell, hold};
use crate::cli::Cli;

const HEAD: &str = "\
# Commands

`mayfly COMMAND --help` prints what stands here. Lists and descriptions take `--json`; what is asked for goes
to standard output, what went wrong is one line on standard error. Exit codes: 0 done, 1 failed, 2 wrong
usage or configuration, 3 a node that was removed from its cluster, 4 one whose groups have all stopped.
`mayfly completions SHELL` prints a completion script.

Durations are written as `90s`, `1h 30m`, or in ISO 8601 as `PT1M`.";

/// Options under this heading are those of every command that talks to a cluster.
const CONNECTION: &str = "Connection";

fn page() -> String {
    let mut root = Cli::command();
    // Fills in how each command is called.
    root.build();
    let mut page = HEAD.to_owned();
    let shared = root.find_subcommand("peek").expect("there is mayfly peek");
    page += "\n\n## How a command reaches a cluster\n\n";
    page += &table(shared.get_arguments().filter(|arg| arg.get_help_heading() == Some(CONNECTION)));
    for command in visible(&root) {
        add(&mut page, command, 2);
    }
    page
}

/// In the order of the help.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

fn add(page: &mut String, command: &Command, level: usize) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let marks = "#".repeat(level.min(4));
    *page += &format!("\n\n{marks} {name}\n");
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        *page += &format!("\n{}.\n", about.to_string().trim_end_matches('.'));
    }
    let own = command.get_arguments().filter(|arg| !is_help(arg));
    if visible(command).next().is_none() || own.count() > 0 {
        let usage = command.clone().render_usage().to_string();
        *page += &format!("\n```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    }
    let own = command.get_arguments().filter(|arg| {
        arg.get_help_heading() != Some(CONNECTION) && !arg.is_hide_set() && !is_help(arg)
    });
    let own: Vec<&Arg> = own.collect();
    if !own.is_empty() {
        *page += &format!("\n{}", table(own.into_iter()));
    }
    if command.get_arguments().any(|arg| arg.get_help_heading() == Some(CONNECTION)) {
        *page += "\nAnd [how it reaches the cluster](#how-a-command-reaches-a-cluster).\n";
    }
    if let Some(after) = command.get_after_help() {
        *page += &format!("\n```text\n{}\n```\n", after.to_string().trim_end());
    }
    for command in visible(command) {
        add(page, command, level + 1);
    }
}

fn is_help(arg: &Arg) -> bool {
    matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    )
}

fn table<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let rows = args.map(|arg| format!("| `{}` | {} |\n", cell(&spelled(arg)), cell(&told(arg))));
    format!("| argument | what |\n|---|---|\n{}", rows.collect::<String>())
}

/// As in "-d, --dead-letter-queue", "--ttl <DURATION>", "--dead-letter-on-expiration[=<BOOL>]" or "<QUEUE>".
fn spelled(arg: &Arg) -> String {
    let takes_values = arg.get_action().takes_values();
    let values: Vec<String> = match arg.get_value_names() {
        Some(names) if takes_values => names.iter().map(|name| format!("<{name}>")).collect(),
        _ => Vec::new(),
    };
    let names =
        [arg.get_short().map(|c| format!("-{c}")), arg.get_long().map(|l| format!("--{l}"))];
    let names = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if arg.is_require_equals_set() {
        return format!("{names}[={}]", values.concat());
    }
    [names]
        .into_iter()
        .filter(|names| !names.is_empty())
        .chain(values)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Its help, what it is by default, what it may be, and its variable.
fn told(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut told = help.map(ToString::to_string).unwrap_or_default();
    if !told.ends_with(['.', '?']) {
        told.push('.');
    }
    let quoted = |values: Vec<String>| {
        values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
    };
    if arg.get_action().takes_values() {
        let values = arg.get_possible_values();
        let values = values.iter().filter(|value| !value.is_hide_set());
        let values: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        if !values.is_empty() {
            told += &format!(" One of {}.", quoted(values));
        }
        let defaults = arg.get_default_values().iter();
        let defaults: Vec<String> =
            defaults.map(|value| value.to_string_lossy().into_owned()).collect();
        if !defaults.is_empty() {
            told += &format!(" Default {}.", quoted(defaults));
        }
    }
    if let Some(variable) = arg.get_env() {
        told += &format!(" Also `{}`.", variable.to_string_lossy());
    }
    told
}

#[test]
fn reference_commands_are_current() {
    hold("commands.md", &page());
}
