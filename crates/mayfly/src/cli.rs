//! The command line.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::{commands, demo, serve, terminal, up};

const EXAMPLES: &str = "\
Examples:
  mayfly up                                     three nodes on this machine, until Ctrl-C
  mayfly queue create orders --ttl 1h --dead-letter-on-expiration
  mayfly send orders 'hello' --ttl 90s
  mayfly receive orders --complete --max 10
  mayfly demo                                   the demo job, on a cluster of its own

Every command explains itself: mayfly send --help";

/// A clustered message broker with the semantics of Azure Service Bus.
#[derive(Debug, Parser)]
#[command(name = "mayfly", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one node
    Serve(Box<serve::ServeArgs>),
    /// Run a cluster on this machine
    Up(up::UpArgs),
    /// Replay a week of earthquakes as expiring alerts, kill a leader, account for every alert
    Demo(demo::DemoArgs),
    /// Create, show, list, update and delete queues
    Queue(commands::queue::QueueArgs),
    /// Create, show, list, update and delete topics
    Topic(commands::topic::TopicArgs),
    /// Create, show, list, update and delete subscriptions of topics
    Subscription(commands::subscription::SubscriptionArgs),
    /// Create, show, list, update, delete and try rules of subscriptions
    Rule(commands::rule::RuleArgs),
    /// Create, list, show, update and delete namespaces
    Namespace(commands::namespace::NamespaceArgs),
    /// Everything a cluster has, as a file; and a cluster as a file says
    Definitions(commands::definitions::DefinitionsArgs),
    /// Backups in a directory or an S3-compatible store
    Backup(commands::backup::BackupArgs),
    /// Send messages
    Send(commands::send::SendArgs),
    /// Receive messages, as JSON lines
    Receive(commands::receive::ReceiveArgs),
    /// Look at messages without touching them, as JSON lines
    Peek(commands::peek::PeekArgs),
    /// Delete the messages of a queue
    Purge(commands::purge::PurgeArgs),
    /// Send the messages of a dead-letter queue to their queue again
    Resubmit(commands::resubmit::ResubmitArgs),
    /// What became of a message
    Message(commands::message::MessageArgs),
    /// Sessions of a queue, and their states
    Session(commands::session::SessionArgs),
    /// Measure a cluster under load
    Bench(commands::bench::BenchArgs),
    /// Load tests from a file: any cluster, any Service Bus endpoint, any AMQP 1.0 broker
    Load(commands::load::LoadArgs),
    /// Hurt a cluster under load, and check everything clients were told
    Chaos(commands::chaos::ChaosArgs),
    /// Run programs of one's own under faults, and check what became of their messages
    Experiment(commands::experiment::ExperimentArgs),
    /// Whether nodes can serve, for probes; exit code 1 if one cannot
    Health(commands::health::HealthArgs),
    /// Nodes, groups and leaders
    Cluster(commands::cluster::ClusterArgs),
    /// Nodes, queues and their rates on the screen, kept fresh
    Top(commands::top::TopArgs),
    /// What somebody needs who helps with a cluster, in one file
    Support(commands::support::SupportArgs),
    /// List and close the connections of clients
    Connection(commands::connection::ConnectionArgs),
    /// What a node's settings come to
    Config(commands::config::ConfigArgs),
    /// Keys of clients: their rights, and new ones in their place
    Key(commands::key::KeyArgs),
    /// Certificates for nodes and clients
    Cert(commands::cert::CertArgs),
    /// Faults that clients are made to meet
    Fault(commands::fault::FaultArgs),
    /// The cluster's time
    Clock(commands::clock::ClockArgs),
    /// Print a shell's completion script
    Completions(commands::completions::CompletionsArgs),
    /// Write a manual page of every command (for packages)
    #[command(hide = true)]
    Man(commands::man::ManArgs),
}

/// Parses the command line. What is wrong with it is told in one line; asked-for help is printed.
pub fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Nothing can be told where printing fails.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { 2 } else { 0 })
        }
        _ => {
            terminal::complain(&one_line(&error.to_string()));
            ExitCode::from(2)
        }
    })
}

/// Clap's message without its usage paragraph: what is wrong, its tips, and where help is.
fn one_line(message: &str) -> String {
    let told: Vec<&str> = message
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    let told = told.join("; ").replace(":; ", ": ");
    format!("{}; see --help", told.trim_start_matches("error: "))
}

impl Cli {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Serve(args) => serve::run(*args).await?,
            Command::Up(args) => up::run(args).await?,
            Command::Demo(args) => return demo::run(args).await,
            Command::Queue(args) => commands::queue::run(args).await?,
            Command::Topic(args) => commands::topic::run(args).await?,
            Command::Subscription(args) => commands::subscription::run(args).await?,
            Command::Rule(args) => commands::rule::run(args).await?,
            Command::Namespace(args) => commands::namespace::run(args).await?,
            Command::Definitions(args) => return commands::definitions::run(args).await,
            Command::Backup(args) => commands::backup::run(args).await?,
            Command::Send(args) => commands::send::run(args).await?,
            Command::Receive(args) => commands::receive::run(args).await?,
            Command::Peek(args) => commands::peek::run(args).await?,
            Command::Purge(args) => commands::purge::run(args).await?,
            Command::Resubmit(args) => commands::resubmit::run(args).await?,
            Command::Message(args) => return commands::message::run(args).await,
            Command::Session(args) => commands::session::run(args).await?,
            Command::Bench(args) => commands::bench::run(args).await?,
            Command::Load(args) => return commands::load::run(args).await,
            Command::Chaos(args) => return commands::chaos::run(args).await,
            Command::Experiment(args) => return commands::experiment::run(args).await,
            Command::Health(args) => return commands::health::run(args).await,
            Command::Cluster(args) => return commands::cluster::run(args).await,
            Command::Top(args) => commands::top::run(args).await?,
            Command::Support(args) => commands::support::run(args).await?,
            Command::Connection(args) => commands::connection::run(args).await?,
            Command::Config(args) => commands::config::run(&args, std::env::args_os().collect())?,
            Command::Key(args) => commands::key::run(args).await?,
            Command::Cert(args) => commands::cert::run(args)?,
            Command::Fault(args) => commands::fault::run(args).await?,
            Command::Clock(args) => commands::clock::run(args).await?,
            Command::Completions(args) => commands::completions::run(&args, Cli::command())?,
            Command::Man(args) => commands::man::run(&args, Cli::command())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn complaint(line: &str) -> String {
        let error = Cli::try_parse_from(line.split_whitespace()).expect_err(line);
        one_line(&error.to_string())
    }

    #[test]
    fn wrong_usage_is_told_in_one_line() {
        for (line, told) in [
            (
                "mayfly queue show orders --jsn",
                "unexpected argument '--jsn' found; tip: a similar argument exists: '--json'; see --help",
            ),
            (
                "mayfly send orders hi --ttl 5",
                "invalid value '5' for '--ttl <DURATION>': '5' has no unit; write 5s or 5ms; see --help",
            ),
            (
                "mayfly receive",
                "the following required arguments were not provided: <QUEUE>; see --help",
            ),
        ] {
            assert_eq!(complaint(line), told, "{line}");
        }
        assert!(complaint("mayfly sned").starts_with("unrecognized subcommand 'sned'; tip: "));
    }
}
