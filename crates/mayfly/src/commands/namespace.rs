//! `mayfly namespace`.

use clap::Subcommand;
use client::v1;
use domain::AuthorizationRule;
use serde_json::{Value, json};
use wire::native;

use super::authorization;
use crate::connect::Connect;
use crate::input::instant;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly namespace create orders
  mayfly namespace show orders --keys
  mayfly namespace create team-7 --authorization-rule worker=listen,send
  mayfly namespace list
  mayfly namespace update orders --authorization-rule RootManageSharedAccessKey=manage --authorization-rule shop=send
  mayfly queue create intake --namespace orders
  mayfly namespace delete orders --force

Clients choose a namespace by the first label of the host they connect to: sb://orders.bus.example/";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct NamespaceArgs {
    #[command(subcommand)]
    command: NamespaceCommand,
}

#[derive(Debug, Subcommand)]
enum NamespaceCommand {
    /// Create a namespace, with a rule RootManageSharedAccessKey unless others are given
    Create {
        /// Its name: letters, digits and '-', a letter first; what host names begin with
        name: String,
        #[arg(long = "authorization-rule", value_name = "NAME=RIGHT,…", help = authorization::HELP)]
        #[arg(value_parser = authorization::parse)]
        authorization_rules: Vec<AuthorizationRule>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Namespaces beside the default one, in order of name
    List {
        #[command(flatten)]
        shown: Shown,
    },
    /// Its rules, and what is in it
    Show {
        /// Name of the namespace
        name: String,
        /// The keys of its authorization rules too
        #[arg(long)]
        keys: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// Put other rules in the place of its rules
    Update {
        /// Name of the namespace
        name: String,
        #[arg(long = "authorization-rule", value_name = "NAME=RIGHT,…", help = authorization::HELP)]
        #[arg(value_parser = authorization::parse, required = true)]
        authorization_rules: Vec<AuthorizationRule>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Delete a namespace
    Delete {
        /// Name of the namespace
        name: String,
        /// With all queues and topics in it, and all their messages
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        connect: Connect,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct Shown {
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub async fn run(args: NamespaceArgs) -> anyhow::Result<()> {
    match args.command {
        NamespaceCommand::Create { name, authorization_rules, shown } => {
            let rules = (!authorization_rules.is_empty())
                .then(|| native::shown_rules(&authorization_rules));
            let namespace = shown.connect.client()?.create_namespace(&name, rules).await?;
            done(&shown, &namespace, "created")
        }
        NamespaceCommand::List { shown } => {
            let namespaces = shown.connect.client()?.namespaces().await?;
            list(&namespaces, shown.json)
        }
        NamespaceCommand::Show { name, keys, shown } => {
            let namespace = shown.connect.client()?.namespace(&name).await?;
            show(&namespace, keys, shown.json)
        }
        NamespaceCommand::Update { name, authorization_rules, shown } => {
            let rules = native::shown_rules(&authorization_rules);
            let namespace = shown.connect.client()?.update_namespace(&name, rules).await?;
            done(&shown, &namespace, "updated")
        }
        NamespaceCommand::Delete { name, force, connect } => {
            match connect.client()?.delete_namespace(&name, force).await? {
                true => terminal::line(format!("namespace '{name}' deleted")),
                false => terminal::line(format!(
                    "namespace '{name}' is being deleted, which goes on; ask again to wait for its end"
                )),
            }
        }
    }
}

fn done(shown: &Shown, namespace: &v1::Namespace, done: &str) -> anyhow::Result<()> {
    if shown.json {
        return terminal::json(&as_json(namespace, false)?);
    }
    let name = &namespace.name;
    terminal::line(format!("namespace '{name}' {done}"))?;
    terminal::note(&format!("its keys: mayfly namespace show {name} --keys"));
    Ok(())
}

fn list(namespaces: &[v1::Namespace], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let namespaces = namespaces.iter().map(|namespace| self::as_json(namespace, false));
        return terminal::json(&namespaces.collect::<anyhow::Result<Vec<Value>>>()?);
    }
    if namespaces.is_empty() {
        return terminal::line("no namespaces beside the default one");
    }
    let row = |namespace: &v1::Namespace| {
        Ok(vec![
            namespace.name.clone(),
            state(namespace).to_owned(),
            terminal::count(namespace.entities.into()),
            instant::show_ms(namespace.created_at_ms),
            authorization::shown(&rules(namespace)?, false),
        ])
    };
    let rows = namespaces.iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
    let header = ["name", "state", "entities", "created", "rules"];
    terminal::line(terminal::table(&header, &[2], rows))
}

fn show(namespace: &v1::Namespace, keys: bool, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return terminal::json(&self::as_json(namespace, keys)?);
    }
    super::show([
        ("name", namespace.name.clone()),
        ("state", state(namespace).to_owned()),
        ("queues and topics", terminal::count(namespace.entities.into())),
        ("created", instant::show_ms(namespace.created_at_ms)),
        ("rules changed", instant::show_ms(namespace.modified_at_ms)),
        ("authorization rules", authorization::shown(&rules(namespace)?, keys)),
    ])
}

fn as_json(namespace: &v1::Namespace, keys: bool) -> anyhow::Result<Value> {
    Ok(json!({
        "name": namespace.name,
        "state": state(namespace),
        "entities": namespace.entities,
        "created_at": instant::show_ms(namespace.created_at_ms),
        "modified_at": instant::show_ms(namespace.modified_at_ms),
        "authorization_rules": authorization::as_json(&rules(namespace)?, keys),
    }))
}

fn state(namespace: &v1::Namespace) -> &'static str {
    if namespace.deleting { "being deleted" } else { "ready" }
}

fn rules(namespace: &v1::Namespace) -> anyhow::Result<Vec<AuthorizationRule>> {
    let rules = namespace.authorization_rules.clone().unwrap_or_default();
    native::authorization_rules(rules).map_err(|refusal| anyhow::anyhow!("{refusal}"))
}
