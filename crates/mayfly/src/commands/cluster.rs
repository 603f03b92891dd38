//! `mayfly cluster`.

mod check;
mod events;
mod show;
mod token;
mod watch;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Subcommand;
use client::v1;
use domain::{DATA_GROUPS_MAX, FEATURE_LEVEL_KNOWN};

pub(super) use check::check_as_json;
pub(super) use events::events_since;
pub(super) use show::{as_json as status_as_json, role_name};

use crate::connect::Connect;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly cluster status
  mayfly cluster check                           for scripts: exit code 0, 1 or 2
  mayfly cluster status --json | jq '.groups[] | select(.leader == 0)'
  mayfly cluster events --since 10m --follow
  mayfly cluster transfer --queue orders 2       node 2 shall lead the group of 'orders'
  mayfly cluster maintenance on 2                it leads nothing, and may be stopped without a pause
  mayfly cluster groups 64                       new entities are put on the new groups
  mayfly cluster drain 1 && mayfly cluster remove 1
  mayfly cluster remove 3 --dead                 it will never come back: others take its place
  mayfly cluster token --node 4 > token          admits node 4 within an hour, once

A node joins with one command on its machine, 'mayfly serve --data-dir … --join host:port', and a join
token (--token-file) or the cluster's secret. What add, drain, groups, remove and rebalance ask for the
cluster does by itself: they may be interrupted, and run again to go on watching.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// What is wrong, nodes, groups, leaders and how far each replica is; exit code 1 if something is wrong
    Status {
        #[command(flatten)]
        connect: Connect,
        /// What the answering node knows by itself; needs no majority
        #[arg(long)]
        local: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Look whether all is well: quorum, replicas, disks, clocks, certificates; the exit code is for scripts
    Check(check::CheckArgs),
    /// What changed: entities, nodes, leaders, keys, faults, the clock; and with --follow what changes
    Events(events::EventsArgs),
    /// Hand the leadership of a group to another node
    Transfer {
        /// The group by its number
        #[arg(long, required_unless_present = "queue", conflicts_with = "queue")]
        group: Option<u32>,
        /// The group that holds this queue
        #[arg(long)]
        queue: Option<String>,
        /// The node that shall lead
        node: u64,
        #[command(flatten)]
        connect: Connect,
    },
    /// Make a join token, which admits one node, and print it
    Token(token::TokenArgs),
    /// Make a node a part of the cluster before it is started, and wait until it holds its share
    Add {
        /// Where the others shall reach it
        #[arg(long, value_name = "HOST:PORT")]
        peer: String,
        /// Where clients shall reach its native API
        #[arg(long, value_name = "HOST:PORT")]
        grpc: String,
        /// Where its HTTP port shall be reached
        #[arg(long, value_name = "HOST:PORT")]
        http: String,
        /// Its number, if not the next free one
        #[arg(long)]
        node: Option<u64>,
        #[command(flatten)]
        watching: Watching,
    },
    /// Move all a node holds and leads to others
    Drain {
        /// The node that shall leave
        node: u64,
        /// Let it have its share again
        #[arg(long)]
        cancel: bool,
        #[command(flatten)]
        watching: Watching,
    },
    /// Have a node lead nothing while it keeps its replicas, for work on its machine
    Maintenance {
        /// Whether it begins or is over
        #[arg(value_name = "on|off", hide_possible_values = true)]
        switch: Switch,
        /// The node
        node: u64,
        #[command(flatten)]
        watching: Watching,
    },
    /// Have more data groups, for entities that are created from then on
    Groups {
        /// How many there shall be, never fewer than there are
        #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(DATA_GROUPS_MAX)))]
        count: u16,
        #[command(flatten)]
        watching: Watching,
    },
    /// Take a node out of the cluster, for good
    Remove {
        /// A node that was drained
        node: u64,
        /// It is lost and will never come back: its replicas are replaced on others
        #[arg(long)]
        dead: bool,
        #[command(flatten)]
        watching: Watching,
    },
    /// Wait until replicas and leaders are spread evenly, which the cluster sees to by itself
    Rebalance {
        #[command(flatten)]
        connect: Connect,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Debug, clap::Args)]
struct Watching {
    /// Do not wait until it is done
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    connect: Connect,
}

pub async fn run(args: ClusterArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        ClusterCommand::Check(args) => return check::run(args).await,
        ClusterCommand::Status { connect, local, json } => {
            let status = connect.client()?.status(local).await?;
            if json { terminal::json(&show::as_json(&status)) } else { show::print(&status) }?;
            match status.wrong.len() {
                0 => Ok(()),
                1 => Err(anyhow!("something is wrong with this cluster: {}", status.wrong[0])),
                count => Err(anyhow!("{count} things are wrong with this cluster")),
            }
        }
        ClusterCommand::Transfer { group, queue, node, connect } => {
            let client = connect.client()?;
            let group = match (group, queue) {
                (Some(group), _) => group,
                (None, Some(queue)) => client.get_queue(&queue).await?.group,
                (None, None) => return Err(terminal::usage("name a --group or a --queue")),
            };
            client.transfer_leader(group, node).await?;
            terminal::line(format!("node {node} leads group {group}"))
        }
        ClusterCommand::Add { peer, grpc, http, node, watching } => {
            add(
                &watching,
                v1::NodeAddress {
                    id: node.unwrap_or(0),
                    peer_address: peer,
                    grpc_address: grpc,
                    http_address: http,
                },
            )
            .await
        }
        ClusterCommand::Events(args) => events::run(args).await,
        ClusterCommand::Token(args) => token::run(args).await,
        ClusterCommand::Drain { node, cancel, watching } => drain(&watching, node, cancel).await,
        ClusterCommand::Maintenance { switch, node, watching } => {
            maintenance(&watching, node, switch == Switch::On).await
        }
        ClusterCommand::Groups { count, watching } => groups(&watching, count.into()).await,
        ClusterCommand::Remove { node, dead, watching } => {
            let client = watching.connect.client()?;
            client.remove_node(node, dead).await?;
            terminal::line(format!("node {node} is no part of the cluster any more"))?;
            match dead && !watching.no_wait {
                true => watch::replaced(&client, node).await,
                false => Ok(()),
            }
        }
        ClusterCommand::Rebalance { connect } => watch::even(&connect.client()?).await,
    }?;
    Ok(ExitCode::SUCCESS)
}

async fn maintenance(watching: &Watching, node: u64, on: bool) -> anyhow::Result<()> {
    let client = watching.connect.client()?;
    client.set_maintenance(node, on).await?;
    if !on {
        return terminal::line(format!("node {node} is given its share of leaderships again"));
    }
    if watching.no_wait {
        return Ok(());
    }
    watch::leads_nothing(&client, node).await?;
    terminal::line(format!(
        "node {node} leads nothing; 'mayfly cluster maintenance off {node}' ends that, a restart does not"
    ))
}

async fn groups(watching: &Watching, count: u32) -> anyhow::Result<()> {
    let client = watching.connect.client()?;
    client.add_groups(count).await?;
    if watching.no_wait {
        return Ok(());
    }
    watch::groups_open(&client, count).await?;
    terminal::line(format!(
        "there are {count} data groups; what is on one of them stays there, until you move it ('mayfly queue move')"
    ))
}

async fn add(watching: &Watching, node: v1::NodeAddress) -> anyhow::Result<()> {
    let client = watching.connect.client()?;
    let where_it_listens = listening(&node);
    let added = client.add_node(node, FEATURE_LEVEL_KNOWN).await?;
    let seeds = watching.connect.connect.join(",");
    terminal::line(format!(
        "node {} is a part of the cluster; start it there, with the cluster's secret:\n  mayfly serve \
         --data-dir ./data --join {seeds} --node {} {where_it_listens}",
        added.id, added.id
    ))?;
    match watching.no_wait {
        true => Ok(()),
        false => watch::joined(&client, added.id).await,
    }
}

/// The flags of a node that is reached there. It listens on addresses: by a name, on all it has.
fn listening(node: &v1::NodeAddress) -> String {
    let addresses =
        [("peer", &node.peer_address), ("grpc", &node.grpc_address), ("http", &node.http_address)];
    let mut flags: Vec<String> = Vec::new();
    for (flag, address) in addresses {
        match (address.parse::<SocketAddr>(), address.rsplit_once(':')) {
            (Err(_), Some((host, port))) => {
                let named = format!("--advertise {host}");
                if !flags.contains(&named) {
                    flags.insert(0, named);
                }
                flags.push(format!("--{flag} 0.0.0.0:{port}"));
            }
            _ => flags.push(format!("--{flag} {address}")),
        }
    }
    flags.join(" ")
}

async fn drain(watching: &Watching, node: u64, cancel: bool) -> anyhow::Result<()> {
    let client = watching.connect.client()?;
    let before = client.status(false).await?;
    let role = before.nodes.iter().find(|known| known.id == node).map(|known| known.role());
    client.drain_node(node, cancel).await?;
    match (cancel, role) {
        (true, Some(v1::NodeRole::Draining | v1::NodeRole::Drained)) => {
            return terminal::line(format!("node {node} is given its share again"));
        }
        (true, _) => return terminal::line(format!("node {node} was not drained")),
        (false, Some(v1::NodeRole::Draining)) => {
            terminal::line(format!("node {node} is being drained already"))?;
        }
        (false, _) => (),
    }
    if watching.no_wait {
        return Ok(());
    }
    watch::drained(&client, node).await?;
    terminal::line(format!(
        "node {node} holds nothing any more; 'mayfly cluster remove {node}' takes it out and ends it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_reached_by_a_name_listens_on_all_its_addresses() {
        let node = |host: &str| v1::NodeAddress {
            id: 0,
            peer_address: format!("{host}:5320"),
            grpc_address: format!("{host}:5310"),
            http_address: format!("{host}:5300"),
        };
        for (host, flags) in [
            ("10.0.0.4", "--peer 10.0.0.4:5320 --grpc 10.0.0.4:5310 --http 10.0.0.4:5300"),
            ("n4", "--advertise n4 --peer 0.0.0.0:5320 --grpc 0.0.0.0:5310 --http 0.0.0.0:5300"),
        ] {
            assert_eq!(listening(&node(host)), flags);
        }
    }
}
