//! `mayfly connection`: which clients are connected to which node, and the end of a connection.

use std::collections::BTreeMap;

use client::{Client, v1};
use serde_json::{Value, json};

use crate::connect::Connect;
use crate::input::instant;
use crate::terminal;

/// Links that a line of the table names; the rest are counted.
const LINKS_SHOWN_MAX: usize = 3;

const EXAMPLES: &str = "\
Examples:
  mayfly connection list                           of all nodes
  mayfly connection list --node 2 --entity orders
  mayfly connection list --json | jq -r '.connections[] | select(.key_name == \"shop\") | .id'
  mayfly connection close 2-3f21c0-17

A client library connects again by itself when its connection is closed. To keep a client out, take its
key away: mayfly key rotate, or [[keys]] in the configuration.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ConnectionArgs {
    #[command(subcommand)]
    command: ConnectionCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConnectionCommand {
    /// Every connection of a client: where from, with which key, by what program, for which entities
    List {
        /// Only those to this node
        #[arg(long, value_name = "NODE", value_parser = clap::value_parser!(u64).range(1..))]
        node: Option<u64>,
        /// Only those with a link or stream to this entity
        #[arg(long, value_name = "NAME")]
        entity: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connect: Connect,
    },
    /// End connections, each with a goodbye where its protocol has one
    Close {
        /// Ids, as 'connection list' shows them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        #[command(flatten)]
        connect: Connect,
    },
}

pub async fn run(args: ConnectionArgs) -> anyhow::Result<()> {
    match args.command {
        ConnectionCommand::List { node, entity, json, connect } => {
            let client = connect.client()?;
            let mut found = FoundConnections::read(&client, node.unwrap_or(0)).await?;
            if let Some(entity) = &entity {
                found.connections.retain(|connection| is_of(connection, entity));
            }
            match json {
                true => terminal::json(&found.json()),
                false => found.print(),
            }
        }
        ConnectionCommand::Close { ids, connect } => {
            let client = connect.client()?;
            for id in ids {
                client.close_connection(&id).await?;
                terminal::line(format!("connection {id} is told to end"))?;
            }
            Ok(())
        }
    }
}

/// All of all nodes, as `--json` shows them.
pub async fn all_as_json(client: &Client) -> anyhow::Result<Value> {
    Ok(FoundConnections::read(client, 0).await?.json())
}

/// All connections, and which nodes did not tell theirs.
struct FoundConnections {
    connections: Vec<v1::Connection>,
    untold: BTreeMap<u64, String>,
}

impl FoundConnections {
    /// `node`: 0 for all.
    async fn read(client: &Client, node: u64) -> anyhow::Result<FoundConnections> {
        let mut found = FoundConnections { connections: Vec::new(), untold: BTreeMap::new() };
        let mut after = String::new();
        loop {
            let page = client.connections(node, &after).await?;
            found.untold.extend(page.untold.into_iter().map(|untold| (untold.node, untold.why)));
            found.connections.extend(page.connections);
            match found.connections.last() {
                Some(last) if page.more && last.id != after => after = last.id.clone(),
                Some(_) | None => return Ok(found),
            }
        }
    }

    fn json(&self) -> Value {
        let untold = self.untold.iter().map(|(node, why)| json!({"node": node, "why": why}));
        json!({
            "connections": self.connections.iter().map(members).collect::<Vec<_>>(),
            "unknown": untold.collect::<Vec<_>>(),
        })
    }

    fn print(&self) -> anyhow::Result<()> {
        let header = ["id", "protocol", "from", "since", "key", "client", "in", "out", "links"];
        let rows = self.connections.iter().map(row).collect::<Vec<_>>();
        match rows.is_empty() {
            true => terminal::line("no connections")?,
            false => terminal::line(terminal::table(&header, &[6, 7], rows))?,
        }
        for (node, why) in &self.untold {
            terminal::line(format!("node {node}: its connections are not known, {why}"))?;
        }
        Ok(())
    }
}

/// Names of entities are one in either case.
fn is_of(connection: &v1::Connection, entity: &str) -> bool {
    let (entity, below) = (entity.to_lowercase(), format!("{}/", entity.to_lowercase()));
    connection.links.iter().any(|link| {
        let address = link.address.trim_start_matches('/').to_lowercase();
        address == entity || address.starts_with(&below)
    })
}

fn row(connection: &v1::Connection) -> Vec<String> {
    vec![
        connection.id.clone(),
        protocol(connection),
        connection.peer.clone(),
        instant::show_ms(connection.opened_at_ms),
        connection.key_name.clone(),
        program(connection),
        terminal::bytes(connection.received_bytes),
        terminal::bytes(connection.sent_bytes),
        links(connection),
    ]
}

/// As addresses of services begin: "amqps", "amqp in wss", "https", "grpc in tls".
fn protocol(connection: &v1::Connection) -> String {
    let v1::Connection { protocol, web_socket, tls, .. } = connection;
    match (protocol.as_str(), web_socket, tls) {
        (protocol, true, true) => format!("{protocol} in wss"),
        (protocol, true, false) => format!("{protocol} in ws"),
        (protocol @ ("amqp" | "http"), false, true) => format!("{protocol}s"),
        (protocol, false, true) => format!("{protocol} in tls"),
        (protocol, false, false) => protocol.to_owned(),
    }
}

/// What the client says of itself.
fn program(connection: &v1::Connection) -> String {
    match (connection.client_product.as_str(), connection.client_name.as_str()) {
        ("", name) => name.to_owned(),
        (product, "") => product.to_owned(),
        (product, name) => format!("{product} ({name})"),
    }
}

fn links(connection: &v1::Connection) -> String {
    let mut named: Vec<String> = Vec::new();
    // What a client asks beside is nothing to look for.
    let of_entities = |link: &&v1::ConnectionLink| link.role() != v1::LinkRole::Asks;
    for link in connection.links.iter().filter(of_entities) {
        let named_so = format!("{} {}", role(link.role()), link.address);
        if !named.contains(&named_so) {
            named.push(named_so);
        }
    }
    let shown = named.iter().take(LINKS_SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    let asks = connection.links.iter().filter(|link| link.role() == v1::LinkRole::Asks).count();
    let told = connection.links.len();
    let beyond = named.len().saturating_sub(LINKS_SHOWN_MAX)
        + (connection.links_count as usize).saturating_sub(told);
    match (shown.is_empty(), beyond) {
        (true, 0) if asks == 0 => String::new(),
        (true, 0) => format!("{asks} for requests"),
        (_, 0) => shown,
        (_, beyond) => format!("{shown} and {beyond} more"),
    }
}

fn role(role: v1::LinkRole) -> &'static str {
    match role {
        v1::LinkRole::Unspecified => "?",
        v1::LinkRole::Sends => "sends to",
        v1::LinkRole::Receives => "receives from",
        v1::LinkRole::Asks => "asks",
    }
}

fn members(connection: &v1::Connection) -> Value {
    let link = |link: &v1::ConnectionLink| {
        let role = match link.role() {
            v1::LinkRole::Unspecified => "unknown",
            v1::LinkRole::Sends => "sends",
            v1::LinkRole::Receives => "receives",
            v1::LinkRole::Asks => "asks",
        };
        json!({"role": role, "address": link.address})
    };
    json!({
        "id": connection.id,
        "node": connection.node,
        "protocol": connection.protocol,
        "web_socket": connection.web_socket,
        "tls": connection.tls,
        "peer": connection.peer,
        "opened_at_ms": connection.opened_at_ms,
        "principal": connection.principal,
        "key_name": connection.key_name,
        "client_name": connection.client_name,
        "client_product": connection.client_product,
        "links": connection.links.iter().map(link).collect::<Vec<_>>(),
        "links_count": connection.links_count,
        "received_bytes": connection.received_bytes,
        "sent_bytes": connection.sent_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(role: v1::LinkRole, address: &str) -> v1::ConnectionLink {
        v1::ConnectionLink { role: role.into(), address: address.to_owned() }
    }

    #[test]
    fn a_protocol_is_called_what_addresses_of_services_begin_with() {
        for (protocol, web_socket, tls, called) in [
            ("amqp", false, false, "amqp"),
            ("amqp", false, true, "amqps"),
            ("amqp", true, false, "amqp in ws"),
            ("amqp", true, true, "amqp in wss"),
            ("http", false, true, "https"),
            ("grpc", false, false, "grpc"),
            ("grpc", false, true, "grpc in tls"),
        ] {
            let protocol = protocol.to_owned();
            let connection = v1::Connection { protocol, web_socket, tls, ..Default::default() };
            assert_eq!(super::protocol(&connection), called);
        }
    }

    #[test]
    fn links_are_named_once_and_the_rest_are_counted() {
        use v1::LinkRole::{Asks, Receives, Sends};
        for (given, beyond, shown) in [
            (vec![], 0, ""),
            (vec![link(Asks, "$cbs"), link(Asks, "$cbs")], 0, "2 for requests"),
            (vec![link(Asks, "$cbs"), link(Sends, "q"), link(Sends, "q")], 0, "sends to q"),
            (
                vec![link(Sends, "q"), link(Receives, "q"), link(Sends, "a"), link(Sends, "b")],
                0,
                "sends to q, receives from q, sends to a and 1 more",
            ),
            (vec![link(Sends, "q")], 7, "sends to q and 7 more"),
        ] {
            let links_count = (given.len() + beyond) as u32;
            let connection = v1::Connection { links: given, links_count, ..Default::default() };
            assert_eq!(links(&connection), shown);
        }
    }

    #[test]
    fn a_connection_is_of_an_entity_and_of_what_is_below_it() {
        let links = vec![link(v1::LinkRole::Receives, "Orders/$DeadLetterQueue")];
        let connection = v1::Connection { links, ..Default::default() };
        for (entity, expected) in [
            ("orders", true),
            ("ORDERS", true),
            ("order", false),
            ("orders/$deadletterqueue", true),
        ] {
            assert_eq!(is_of(&connection, entity), expected, "{entity}");
        }
    }
}
