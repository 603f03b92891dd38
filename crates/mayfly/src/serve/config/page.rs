//! What a node's settings come to, as a file that a node would read but for what is hidden.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Args as _, Command};

use super::effective::{EffectiveSection, EffectiveSetting, FLAGS, SettingSource, SettingValue};
use crate::serve::ServeArgs;

/// By setting, the flag or variable that says it. `flags`: those of this process, without its name and commands.
pub fn given(flags: impl Iterator<Item = OsString>) -> BTreeMap<&'static str, String> {
    let command = ServeArgs::augment_args(Command::new("serve").no_binary_name(true));
    let matches = command.clone().try_get_matches_from(flags);
    let Ok(matches) = matches else { return BTreeMap::new() };
    let argument = |id: &str| command.get_arguments().find(|argument| argument.get_id() == id);
    let name = |id: &str| match matches.value_source(id)? {
        ValueSource::CommandLine => Some(format!("--{}", argument(id)?.get_long()?)),
        ValueSource::EnvVariable => Some(argument(id)?.get_env()?.to_string_lossy().into_owned()),
        _ => None,
    };
    FLAGS.iter().filter_map(|(id, setting)| Some((*setting, name(id)?))).collect()
}

/// `file`: what it is called in comments.
pub fn page(sections: &[EffectiveSection], file: &str) -> String {
    let mut page = String::new();
    for EffectiveSection { header, settings, .. } in sections {
        page += &format!("{header}\n");
        let lines: Vec<(String, Option<String>)> =
            settings.iter().map(|setting| (assignment(setting), source(setting, file))).collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default();
        for (line, source) in lines {
            match source {
                Some(source) => page += &format!("{line:width$}  # {source}\n"),
                None => page += &format!("{line}\n"),
            }
        }
        page += "\n";
    }
    page
}

fn assignment(EffectiveSetting { key, value, .. }: &EffectiveSetting) -> String {
    match value {
        SettingValue::Is(value) => format!("{key} = {value}"),
        SettingValue::Hidden => format!("# {key} is set"),
        SettingValue::Unset => format!("# {key} is not set"),
    }
}

/// Where it was said, and what it would be otherwise; nothing of what is said nowhere.
fn source(setting: &EffectiveSetting, file: &str) -> Option<String> {
    let source = place(setting, file);
    match (&setting.source, &setting.default) {
        (SettingSource::Default, _) if setting.value == SettingValue::Unset => None,
        (SettingSource::Default, _) | (_, None) => Some(source),
        (_, Some(default)) => Some(format!("{source}; by default {default}")),
    }
}

/// Where it was said.
pub fn place(EffectiveSetting { source, .. }: &EffectiveSetting, file: &str) -> String {
    match source {
        SettingSource::Line(line) => format!("{file}:{line}"),
        SettingSource::Given(name) => name.clone(),
        SettingSource::Default => "default".to_owned(),
    }
}
