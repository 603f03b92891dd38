//! `docs/reference/settings.md`: what `mayfly serve --print-config` prints, as a page. And that what is
//! printed is what a node reads: every key, and what each may be.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args as _, Command};

use super::{cell, hold};
use crate::input::duration;
use crate::serve::ServeArgs;
use crate::serve::config::{Config, FLAGS, Section, Setting, SettingValue, sections};

const HEAD: &str = "\
# Settings of a node

A node reads one TOML file (`mayfly serve --config PATH`), over it variables of the environment, over them
flags. Unknown keys are refused. `mayfly serve --print-config` prints this page as a file. Nodes of one
cluster may have different settings, except where one says that it is the same on every node. A change counts
from the node's next start, except where one says that it is read again.";

/// Of `mayfly serve`: name, flag, variable, help.
fn flags() -> Vec<(String, String, Option<String>, String)> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let told = |arg: &clap::Arg| {
        let flag = format!("--{}", arg.get_long()?);
        let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        Some((arg.get_id().to_string(), flag, variable, help))
    };
    command.get_arguments().filter_map(told).collect()
}

fn page() -> String {
    let flags = flags();
    let mut page = HEAD.to_owned();
    for section in sections() {
        let shown = section.header();
        let Section { name, text, settings, .. } = section;
        page += &format!("\n\n## `{shown}`\n");
        if !text.is_empty() {
            page += &format!("\n{}\n", sentence(&text));
        }
        for Setting { key, value, is_default, text, allowed } in settings {
            let full = format!("{name}.{key}");
            page += &format!("\n### `{full}`\n\n");
            page += &match is_default {
                true => format!("Default `{value}`"),
                false => format!("As in `{value}`"),
            };
            page += &allowed.map(|allowed| format!("; allowed: {allowed}")).unwrap_or_default();
            let flag = FLAGS.iter().find(|(_, setting)| *setting == full).map(|(id, _)| id);
            if let Some((_, flag, variable, _)) =
                flags.iter().find(|(id, ..)| Some(id.as_str()) == flag.copied())
            {
                let variable = variable.as_ref().map(|name| format!(", `{name}`"));
                page += &format!(". Also `{flag}`{}", variable.unwrap_or_default());
            }
            page += ".\n";
            if !text.is_empty() {
                page += &format!("\n{}\n", sentence(&text));
            }
        }
    }
    page += "\n\n## Flags and variables only\n\nWhat no file says: `mayfly serve` takes it as a flag.\n\n";
    page += "| flag | variable | what |\n|---|---|---|\n";
    for (id, flag, variable, help) in flags {
        if FLAGS.iter().all(|(known, _)| *known != id) {
            let variable = variable.map(|name| format!("`{name}`")).unwrap_or_default();
            page += &format!("| `{flag}` | {variable} | {} |\n", cell(&help));
        }
    }
    page
}

/// Comments behind a value begin and end as phrases do.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().map(char::to_uppercase).into_iter().flatten().collect();
    let dot = if text.ends_with(['.', '?', ')']) { "" } else { "." };
    format!("{first}{}{dot}", letters.as_str())
}

/// What a node says to a file.
fn refusal(text: &str) -> Option<String> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("mayfly.toml");
    std::fs::write(&path, text).expect("a file");
    let args =
        ServeArgs { config: Some(path), data_dir: Some("data".into()), ..ServeArgs::default() };
    Config::load(&args).err()
}

#[test]
fn reference_settings_are_current() {
    hold("settings.md", &page());
}

#[test]
fn every_key_a_node_reads_is_printed() {
    let sections = sections();
    for section in &sections {
        let (header, Section { name, settings, .. }) = (section.header(), section);
        // A list within one of a list's tables takes such a table before it.
        let is_above = |other: &&Section| {
            other.header().starts_with("[[") && name.starts_with(&format!("{}.", other.name))
        };
        let above: String =
            sections.iter().filter(is_above).map(|other| other.header() + "\n").collect();
        let told = refusal(&format!("{above}{header}\nzzz = 1\n")).expect("there is no such key");
        let (_, expected) = told.split_once("expected ").unwrap_or_else(|| panic!("{told}"));
        let read: BTreeSet<&str> = expected.split('`').skip(1).step_by(2).collect();
        let tables =
            sections.iter().filter_map(|other| other.name.strip_prefix(&format!("{name}.")));
        let tables = tables.filter(|table| !table.contains('.'));
        let printed = settings.iter().map(|setting| setting.key.as_str()).chain(tables);
        assert_eq!(printed.collect::<BTreeSet<_>>(), read, "{header}");
    }
    let told = refusal("zzz = 1\n").expect("there is no such section");
    let (_, expected) = told.split_once("expected ").unwrap_or_else(|| panic!("{told}"));
    let read: BTreeSet<&str> = expected.split('`').skip(1).step_by(2).collect();
    let printed = sections.iter().map(|section| section.name.as_str());
    assert_eq!(printed.filter(|name| !name.contains('.')).collect::<BTreeSet<_>>(), read);
}

#[test]
fn what_is_said_to_be_allowed_is_what_is_refused() {
    for Section { name, settings, .. } in sections() {
        for Setting { key, value, allowed, .. } in settings {
            let Some(allowed) = allowed else { continue };
            let too_little = if value.starts_with('"') { "\"1ms\"" } else { "0" };
            let told = refusal(&format!("[{name}]\n{key} = {too_little}\n"));
            let told = told.unwrap_or_else(|| panic!("{name}.{key} may be {too_little}"));
            assert!(told.contains(&format!("allowed is {allowed}")), "{told}; printed: {allowed}");
            if value.starts_with('"') || allowed.ends_with("or more") {
                continue;
            }
            // More than any type holds that is not wider than it need be.
            for too_much in ["1000000", "5000000000", "-1"] {
                let told = refusal(&format!("[{name}]\n{key} = {too_much}\n"));
                let told = told.unwrap_or_else(|| panic!("{name}.{key} may be {too_much}"));
                let wanted = format!("{name}.{key} is {too_much}, allowed is {allowed}");
                // How many nodes there are is known then.
                let wanted = wanted.split("the number").next().unwrap_or_default();
                assert!(told.contains(wanted), "{told}; wanted: {wanted}");
            }
        }
    }
}

#[test]
fn every_flag_for_a_setting_names_one() {
    let settings: BTreeSet<String> = sections()
        .iter()
        .flat_map(|Section { name, settings, .. }| {
            settings.iter().map(move |setting| format!("{name}.{}", setting.key))
        })
        .collect();
    let flags = flags();
    for (id, setting) in FLAGS {
        assert!(settings.contains(*setting), "there is no {setting}");
        assert!(flags.iter().any(|(known, ..)| known == id), "there is no --{id}");
    }
}

/// What is printed as a default is what a node has for one, but for what depends on the node.
#[test]
fn what_is_printed_is_what_a_node_goes_by() {
    let args = ServeArgs { data_dir: Some("data".into()), ..ServeArgs::default() };
    let effective = Config::effective(&args, &BTreeMap::new()).expect("nothing is wrong");
    for Section { name, settings, .. } in sections() {
        for Setting { key, value, .. } in settings.into_iter().filter(|setting| setting.is_default)
        {
            let shown = effective.iter().find(|section| section.name == name).expect("a section");
            let shown = shown.settings.iter().find(|setting| setting.key == key).expect("a key");
            let shown = match &shown.value {
                SettingValue::Is(value) => value.to_string(),
                other => format!("{other:?}"),
            };
            let (same, apart) =
                (|text: &str| text.replace(['"', ' '], ""), same_duration(&value, &shown));
            assert!(apart || same(&value) == same(&shown), "{name}.{key}: {value}, {shown}");
        }
    }
}

/// One may write it in several ways.
fn same_duration(one: &str, other: &str) -> bool {
    let parse = |text: &str| duration::parse_ms(text.trim_matches('"')).ok();
    parse(one).is_some_and(|one| parse(other) == Some(one))
}
