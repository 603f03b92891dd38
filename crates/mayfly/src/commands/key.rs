//! `mayfly key`.

mod configuration;
mod rule;

use std::path::PathBuf;

use clap::Subcommand;

use crate::commands::Output;
use crate::connect::ConnectWithin;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly key list --config /etc/mayfly/mayfly.toml
  mayfly key list --entity orders
  mayfly key rotate orders-worker --config /etc/mayfly/mayfly.toml
  mayfly key rotate shop --entity orders
  mayfly queue show orders --keys                what the new one is

A key has two values, and both count. A rotation draws a new primary, and makes the secondary what was the
primary: clients that have that go on, and what the secondary was counts no more. Give clients the new
primary before the next one.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Keys and their rights, without their values
    List {
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        output: Output,
    },
    /// Draw a new primary value; the one it had is the secondary then
    Rotate {
        /// Name of the key, or of the entity's rule
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        of: Of,
        /// The scope of the key, where several of the configuration have its name
        #[arg(long, value_name = "ENTITY", conflicts_with = "entity")]
        scope: Option<String>,
        #[command(flatten)]
        connect: ConnectWithin,
    },
}

/// Whose keys: those of nodes' configurations, or of an entity.
#[derive(Debug, clap::Args)]
struct Of {
    /// The keys of a node's configuration, [[security.key]], and the files it names; on this machine
    #[arg(long, env = "MAYFLY_CONFIG", value_name = "PATH", hide_env_values = true)]
    config: Option<PathBuf>,
    /// The rules of a queue or topic, in the cluster; takes Manage on it
    #[arg(long, value_name = "ENTITY")]
    entity: Option<String>,
}

/// A key as it is listed.
struct Row {
    name: String,
    rights: Vec<&'static str>,
    /// Empty: everything.
    scope: String,
    /// Where its values are kept.
    primary: String,
    secondary: String,
}

pub async fn run(args: KeyArgs) -> anyhow::Result<()> {
    match args.command {
        KeyCommand::List { of, output } => {
            let rows = match of.source()? {
                KeySource::Entity(entity) => rule::list(&output.connect.client()?, &entity).await?,
                KeySource::Config(path) => configuration::list(&path)?,
            };
            show(&rows, output.json)
        }
        KeyCommand::Rotate { name, of, scope, connect } => {
            let told = match of.source()? {
                KeySource::Entity(entity) => {
                    rule::rotate(&connect.client()?, &entity, &name).await?
                }
                KeySource::Config(path) => configuration::rotate(&path, &name, scope.as_deref())?,
            };
            terminal::line(told)
        }
    }
}

/// Where keys are kept.
enum KeySource {
    Config(PathBuf),
    Entity(String),
}

impl Of {
    /// An entity that is named counts before a configuration that a variable names.
    fn source(self) -> anyhow::Result<KeySource> {
        match (self.entity, self.config) {
            (Some(entity), _) => Ok(KeySource::Entity(entity)),
            (None, Some(config)) => Ok(KeySource::Config(config)),
            (None, None) => Err(terminal::usage(
                "whose keys? give --config PATH (or MAYFLY_CONFIG), or --entity NAME",
            )),
        }
    }
}

fn show(rows: &[Row], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let rows = rows.iter().map(|row| {
            let Row { name, rights, scope, primary, secondary } = row;
            serde_json::json!({
                "name": name, "rights": rights, "scope": scope, "primary": primary, "secondary": secondary,
            })
        });
        return terminal::json(&rows.collect::<Vec<_>>());
    }
    if rows.is_empty() {
        return terminal::line("no keys");
    }
    let row = |row: &Row| {
        let scope = if row.scope.is_empty() { "everything" } else { &row.scope };
        let (name, rights) = (row.name.clone(), row.rights.join(", "));
        vec![name, rights, scope.to_owned(), row.primary.clone(), row.secondary.clone()]
    };
    let header = ["name", "rights", "scope", "primary", "secondary"];
    terminal::line(terminal::table(&header, &[], rows.iter().map(row).collect()))
}
