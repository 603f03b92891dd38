//! `mayfly health`.

use std::process::ExitCode;

use crate::connect::Connect;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly health                                  this machine's node
  mayfly health --connect https://node1:5310,https://node2:5310 --tls-ca authority.pem
  mayfly health --timeout 2s || echo 'send nobody there'

It says what /health/ready says, which also tells why a node is not ready, and asks for no secret.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct HealthArgs {
    #[command(flatten)]
    connect: Connect,
}

/// Each node that is named is asked by itself. 0: all are ready.
pub async fn run(args: HealthArgs) -> anyhow::Result<ExitCode> {
    let Connect { connect, login, timeout } = args.connect;
    let options = login.tls.options()?;
    let mut code = ExitCode::SUCCESS;
    for address in connect {
        match client::is_serving(&address, &options, timeout).await {
            Ok(true) => terminal::line(format!("{address} is ready"))?,
            Ok(false) => {
                terminal::complain(&format!(
                    "{address} is not ready; /health/ready of its HTTP port says why"
                ));
                code = ExitCode::FAILURE;
            }
            Err(error) => {
                terminal::complain(&error.to_string());
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}
