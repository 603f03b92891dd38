//! `mayfly namespace`.

use clap::Subcommand;
use client::v1;
use domain::{AuthorizationRule, DEFAULT_NAMESPACE, Profile};
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
  mayfly namespace create like-azure --profile standard
  mayfly namespace list
  mayfly namespace update default --profile premium
  mayfly namespace update orders --authorization-rule RootManageSharedAccessKey=manage --authorization-rule shop=send
  mayfly queue create intake --namespace orders
  mayfly namespace delete orders --force

Clients choose a namespace by the first label of the host they connect to: sb://orders.bus.example/";

const PROFILE_HELP: &str = "The tier of Service Bus that it behaves as: self-hosted (all there is), basic, standard or premium";

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
        #[arg(long, value_name = "PROFILE", help = PROFILE_HELP, default_value_t)]
        profile: Profile,
        #[command(flatten)]
        shown: Shown,
    },
    /// The default namespace, and the others in order of name
    List {
        #[command(flatten)]
        shown: Shown,
    },
    /// Its rules, its profile, and how much is in it
    Show {
        /// Name of the namespace
        name: String,
        /// The keys of its authorization rules too
        #[arg(long)]
        keys: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// Put other rules in the place of its rules, or have it behave as another tier
    Update {
        /// Name of the namespace
        name: String,
        #[arg(long = "authorization-rule", value_name = "NAME=RIGHT,…", help = authorization::HELP)]
        #[arg(value_parser = authorization::parse, required_unless_present = "profile")]
        #[arg(conflicts_with = "profile")]
        authorization_rules: Vec<AuthorizationRule>,
        #[arg(long, value_name = "PROFILE", help = PROFILE_HELP)]
        profile: Option<Profile>,
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
        NamespaceCommand::Create { name, authorization_rules, profile, shown } => {
            let rules = (!authorization_rules.is_empty())
                .then(|| native::shown_rules(&authorization_rules));
            let (client, profile) = (shown.connect.client()?, native::shown_profile(profile));
            let namespace = client.create_namespace_of(&name, profile, rules).await?;
            done(&shown, &namespace, "created")
        }
        NamespaceCommand::List { shown } => {
            let client = shown.connect.client()?;
            let mut namespaces = vec![client.namespace(DEFAULT_NAMESPACE).await?];
            namespaces.extend(client.namespaces().await?);
            list(&namespaces, shown.json)
        }
        NamespaceCommand::Show { name, keys, shown } => {
            let namespace = shown.connect.client()?.namespace(&name).await?;
            show(&namespace, keys, shown.json)
        }
        NamespaceCommand::Update { name, authorization_rules, profile, shown } => {
            let client = shown.connect.client()?;
            let request = v1::UpdateNamespaceRequest {
                name,
                authorization_rules: (!authorization_rules.is_empty())
                    .then(|| native::shown_rules(&authorization_rules)),
                profile: profile.map_or(0, |profile| native::shown_profile(profile).into()),
            };
            let namespace = client.change_namespace(request).await?;
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
    if name != DEFAULT_NAMESPACE {
        terminal::note(&format!("its keys: mayfly namespace show {name} --keys"));
    }
    Ok(())
}

fn list(namespaces: &[v1::Namespace], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let namespaces = namespaces.iter().map(|namespace| self::as_json(namespace, false));
        return terminal::json(&namespaces.collect::<anyhow::Result<Vec<Value>>>()?);
    }
    let row = |namespace: &v1::Namespace| {
        Ok(vec![
            namespace.name.clone(),
            state(namespace).to_owned(),
            profile(namespace)?,
            terminal::count(namespace.entities.into()),
            created(namespace),
            authorization::shown(&rules(namespace)?, false),
        ])
    };
    let rows = namespaces.iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
    let header = ["name", "state", "profile", "entities", "created", "rules"];
    terminal::line(terminal::table(&header, &[3], rows))
}

fn show(namespace: &v1::Namespace, keys: bool, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return terminal::json(&self::as_json(namespace, keys)?);
    }
    super::show([
        ("name", namespace.name.clone()),
        ("state", state(namespace).to_owned()),
        ("profile", profile(namespace)?),
        ("queues and topics", terminal::count(namespace.entities.into())),
        ("created", created(namespace)),
        ("changed", instant::show_ms(namespace.modified_at_ms)),
        ("authorization rules", authorization::shown(&rules(namespace)?, keys)),
    ])
}

fn as_json(namespace: &v1::Namespace, keys: bool) -> anyhow::Result<Value> {
    Ok(json!({
        "name": namespace.name,
        "state": state(namespace),
        "profile": read_profile(namespace.profile)?,
        "next_profile": read_profile(namespace.next_profile)?,
        "entities": namespace.entities,
        "created_at": instant::show_ms(namespace.created_at_ms),
        "modified_at": instant::show_ms(namespace.modified_at_ms),
        "authorization_rules": authorization::as_json(&rules(namespace)?, keys),
    }))
}

/// The default one was there from the first.
fn created(namespace: &v1::Namespace) -> String {
    match namespace.name == DEFAULT_NAMESPACE {
        true => "with the cluster".to_owned(),
        false => instant::show_ms(namespace.created_at_ms),
    }
}

fn profile(namespace: &v1::Namespace) -> anyhow::Result<String> {
    let profile = read_profile(namespace.profile)?.unwrap_or_default();
    Ok(match read_profile(namespace.next_profile)? {
        Some(next) => format!("{profile}, to be {next}"),
        None => profile.to_owned(),
    })
}

fn read_profile(profile: i32) -> anyhow::Result<Option<&'static str>> {
    let profile = native::profile(profile).map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
    Ok(profile.map(Profile::as_str))
}

fn state(namespace: &v1::Namespace) -> &'static str {
    if namespace.deleting { "being deleted" } else { "ready" }
}

fn rules(namespace: &v1::Namespace) -> anyhow::Result<Vec<AuthorizationRule>> {
    let rules = namespace.authorization_rules.clone().unwrap_or_default();
    native::authorization_rules(rules).map_err(|refusal| anyhow::anyhow!("{refusal}"))
}
