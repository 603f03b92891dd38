//! `mayfly load`.

mod compare;
mod run;
mod secret;
mod shipped;
mod view;
mod worker;

use std::process::ExitCode;

use clap::Subcommand;

const EXAMPLES: &str = "\
Examples:
  mayfly load run lifecycle                             one that ships; 'mayfly load list' has them all
  mayfly load run orders.toml
  mayfly load run orders.toml --report out              out/report.html opens without a network
  mayfly load run orders.toml --seconds 5 --json report.json
  mayfly load run orders.toml --protocol amqp
  mayfly load run orders.toml --protocol amqp --amqp amqps://NAMESPACE.servicebus.windows.net:5671 \\
      --entities existing --key-name RootManageSharedAccessKey --secret-file key
  mayfly load run orders.toml --protocol amqp --amqp 10.0.0.7:5672 --entities existing --sasl anonymous

  mayfly load worker --listen 10.0.0.1:5320             on each machine that is to generate load
  mayfly load run orders.toml --workers 10.0.0.1:5320,10.0.0.2:5320

  mayfly load compare before.json after.json

A file says who sends what where, at what rate, who receives it, and what has to hold; 'Load tests' in
the documents has its form.

Exit codes: 0 every threshold held, 1 one did not, 2 wrong file, usage, target or worker,
3 a worker was lost on the way, 130 interrupted.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct LoadArgs {
    #[command(subcommand)]
    command: LoadCommand,
}

#[derive(Debug, Subcommand)]
enum LoadCommand {
    /// Run the load that a file describes, and say whether its thresholds held
    Run(Box<run::RunArgs>),
    /// The loads that ship with the program, which 'mayfly load run' takes by their names
    List,
    /// The file of a load that ships
    Show(shipped::ShowArgs),
    /// Generate load for a coordinator on another machine, 'mayfly load run --workers'
    Worker(worker::WorkerArgs),
    /// Two reports side by side: ratios, and which differences are more than the runs' own noise
    Compare(compare::CompareArgs),
}

pub async fn run(args: LoadArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        LoadCommand::Run(args) => run::run(*args).await,
        LoadCommand::List => shipped::list(),
        LoadCommand::Show(args) => shipped::show(&args),
        LoadCommand::Worker(args) => worker::run(args).await,
        LoadCommand::Compare(args) => compare::run(&args),
    }
}
