//! `mayfly chaos agent`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use chaos::{Agent, AgentEnd};
use clap::Parser;
use tokio::net::TcpListener;

use crate::commands::server_tls::ServerTlsFlags;
use crate::serve::{ServeArgs, Ward, told_to_end};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly chaos agent --listen 10.0.0.1:5330 -- --config /etc/mayfly/mayfly.toml
  mayfly chaos --connect 10.0.0.1:5310 --agent 10.0.0.1:5330,10.0.0.2:5330,10.0.0.3:5330
                                                     from any machine, with the cluster's secret

It is started in the place of the node's own process, on each node's machine: it starts the node, lies on the
way from it to other nodes, and does what an experiment asks for that proves the node's secret. When the
experiment ends, or its connection does, everything is put right. SIGTERM ends the node in good order and then
the agent; a node that ends by itself ends the agent with its exit code.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct AgentArgs {
    /// Where experiments reach it: without --tls-cert a private network, as all is in plain text there
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5330")]
    listen: String,
    #[command(flatten)]
    tls: ServerTlsFlags,
    /// End when standard input ends, that is, when the process that holds it does
    #[arg(long)]
    exit_with_parent: bool,
    /// What 'mayfly serve' is given; the node is in development mode
    #[arg(last = true, value_name = "SERVE FLAGS")]
    serve: Vec<OsString>,
}

/// What `mayfly serve` reads.
#[derive(Parser)]
#[command(name = "mayfly serve", disable_help_flag = true)]
struct Serve {
    #[command(flatten)]
    args: ServeArgs,
}

pub(super) async fn run(args: AgentArgs) -> anyhow::Result<ExitCode> {
    let given = [OsString::from("mayfly serve")].into_iter().chain(args.serve.iter().cloned());
    let serve = Serve::try_parse_from(given).map_err(|error| {
        let told = error.to_string();
        let told = told.lines().next().unwrap_or_default();
        terminal::usage(format!("behind --: {}", told.trim_start_matches("error: ")))
    })?;
    let ward = Ward::of(&serve.args).map_err(terminal::usage)?;
    if !ward.is_in_development_mode() {
        return Err(terminal::usage(
            "the node is not in development mode, and nobody may hurt it; pass --development behind --, or set \
             node.development = true",
        ));
    }
    let listener = TcpListener::bind(&args.listen).await.map_err(|error| {
        terminal::usage(format!("--listen {}: cannot listen there: {error}", args.listen))
    })?;
    let address = listener.local_addr()?;
    let secret = ward.secret().map(str::to_owned);
    if secret.is_none() && !address.ip().is_loopback() {
        return Err(terminal::usage(format!(
            "--listen {address}: the node has no secret that an experiment could prove; give it one, or listen on \
             loopback"
        )));
    }
    let agent = Agent {
        program: std::env::current_exe().context("cannot find this program's own file")?,
        arguments: args.serve,
        data: ward.data_dir().to_owned(),
        secret,
        tls: args.tls.read()?,
        number: ward.number(),
    };
    terminal::line(format!("agent at {address}"))?;
    let stop = async move {
        // Where signals cannot be heard, it ends at once.
        drop(told_to_end(args.exit_with_parent).await);
    };
    match agent.run(listener, stop).await? {
        AgentEnd::Stopped => Ok(ExitCode::SUCCESS),
        AgentEnd::NodeEnded { code, told } => {
            terminal::complain(&format!("the node has ended: {told}"));
            Ok(code
                .and_then(|code| u8::try_from(code).ok())
                .map_or(ExitCode::FAILURE, ExitCode::from))
        }
    }
}
