//! `mayfly config`: what a node's settings come to.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::Subcommand;
use serde_json::json;

use crate::serve::ServeArgs;
use crate::serve::config::{
    self, Config, EffectiveSection, EffectiveSetting, SettingValue, page, place,
};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly config show --config /etc/mayfly/mayfly.toml
  MAYFLY_LOG=debug mayfly config show --data-dir ./data --json

It takes the flags and variables of mayfly serve, and shows what a node that is started with them
would go by. Secrets are not shown. mayfly serve --check-config says whether it would start.";

#[derive(Debug, clap::Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Every setting, and where it was said: in the file, by a flag or variable, or nowhere
    #[command(after_help = EXAMPLES)]
    Show {
        #[command(flatten)]
        serve: Box<ServeArgs>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: &ConfigArgs, arguments: Vec<OsString>) -> anyhow::Result<()> {
    let ConfigCommand::Show { serve, json } = &args.command;
    if serve.print_config || serve.check_config {
        let told = "--print-config and --check-config are of mayfly serve; leave them out";
        return Err(terminal::usage(told));
    }
    let sections = Config::effective(serve, &given(arguments)).map_err(terminal::usage)?;
    let file = serve.config.as_ref().map(|path| path.display().to_string());
    let file = file.as_deref().unwrap_or_default();
    match json {
        true => {
            let objects = sections.iter().flat_map(|section| objects(section, file));
            terminal::json(&objects.collect::<Vec<_>>())
        }
        false => terminal::line(page(&sections, file).trim_end()),
    }
}

/// As [`config::given`]. `arguments`: of this process.
fn given(arguments: Vec<OsString>) -> BTreeMap<&'static str, String> {
    // What stands before the flags are the program and its commands; they were parsed once already.
    config::given(arguments.into_iter().skip(3).filter(|argument| argument != "--json"))
}

fn objects(section: &EffectiveSection, file: &str) -> Vec<serde_json::Value> {
    let object = |setting: &EffectiveSetting| {
        let value = match &setting.value {
            SettingValue::Is(value) => json!(value),
            SettingValue::Hidden | SettingValue::Unset => json!(null),
        };
        json!({
            "setting": format!("{}.{}", section.name, setting.key),
            "value": value,
            "hidden": setting.value == SettingValue::Hidden,
            "source": place(setting, file),
            "default": setting.default,
        })
    };
    section.settings.iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::*;

    const FILE: &str = r#"[node]
data_dir = "data"

[listen]
grpc = "127.0.0.1:6310"
any = ["127.0.0.1:443"]

[amqp]
idle_timeout = "90s"
link_idle_timeout = "never"

[security]
secret = "a-secret-of-many-characters"
wrong_keys_per_minute = 7

[[security.key]]
name = "worker"
key = "the-key-of-the-worker"
rights = ["send"]

[[security.key]]
name = "reader"
key = "the-key-of-the-reader"
rights = ["listen"]
scope = "orders"

[limits]
links_per_connection = 9
"#;

    fn shown(text: &str, flags: &[&str]) -> String {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("mayfly.toml");
        std::fs::write(&path, text).expect("written");
        let config = ["--config", path.to_str().expect("a name")];
        let arguments = ["mayfly", "config", "show"].into_iter().chain(config);
        let arguments: Vec<OsString> =
            arguments.chain(flags.iter().copied()).map(Into::into).collect();
        let command = ServeArgs::augment_args(Command::new("serve").no_binary_name(true));
        let matches = command.get_matches_from(arguments[3..].iter().cloned());
        let serve = <ServeArgs as clap::FromArgMatches>::from_arg_matches(&matches).expect("flags");
        let sections = Config::effective(&serve, &given(arguments)).expect("the file is right");
        page(&sections, "mayfly.toml")
    }

    #[test]
    fn where_a_setting_was_said_stands_beside_it() {
        let page = shown(FILE, &["--node", "1", "--http=127.0.0.1:6300", "--insecure"]);
        let told = |wanted: &str, source: &str| {
            let found = page.lines().filter_map(|line| line.split_once("  # "));
            let found = found.filter(|(line, _)| line.trim_end() == wanted);
            let sources: Vec<&str> =
                found.filter_map(|(_, source)| source.split(';').next()).collect();
            assert_eq!(sources, [source], "{wanted}: {page}");
        };
        told("id = 1", "--node");
        told("data_dir = \"data\"", "mayfly.toml:2");
        told("grpc = \"127.0.0.1:6310\"", "mayfly.toml:5");
        told("http = \"127.0.0.1:6300\"", "--http");
        told("peer = \"127.0.0.1:5320\"", "default");
        told("any = [\"127.0.0.1:443\"]", "mayfly.toml:6");
        told("idle_timeout = \"1m 30s\"", "mayfly.toml:9");
        told("link_idle_timeout = \"never\"", "mayfly.toml:10");
        told("insecure = true", "--insecure");
        told("wrong_keys_per_minute = 7", "mayfly.toml:14");
        told("auth = \"on\"", "default");
        told("name = \"reader\"", "mayfly.toml:22");
        told("scope = \"orders\"", "mayfly.toml:25");
        told("links_per_connection = 9", "mayfly.toml:28");
    }

    #[test]
    fn secrets_are_not_shown() {
        let page = shown(FILE, &[]);
        for hidden in ["a-secret-of", "the-key-of"] {
            assert!(!page.contains(hidden), "{page}");
        }
        for told in ["# secret is set", "# key is set", "# secondary_key is not set"] {
            assert!(page.contains(told), "{page}");
        }
    }

    /// What is shown of a node without secrets is a file for such a node.
    #[test]
    fn what_is_shown_reads_as_what_it_was() {
        let text = FILE.split("[security]").next().expect("a beginning");
        let once = shown(text, &[]);
        let values = |page: &str| {
            let lines = page.lines().filter_map(|line| line.split_once("  # "));
            lines.map(|(line, _)| line.trim_end().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(values(&shown(&once, &[])), values(&once));
        assert!(once.contains("idle_timeout = \"1m 30s\""));
    }
}
