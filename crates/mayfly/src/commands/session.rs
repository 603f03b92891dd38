//! `mayfly session`: which sessions a queue has, and what is kept with one.

use client::{Client, ReceiverOptions, v1};

use crate::connect::ConnectWithin;
use crate::input::instant::{self, Instant};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly session list orders                       those with messages or a state
  mayfly session list orders --updated-after 2026-01-31T12:00:00Z
  mayfly session state orders alice                print its state
  mayfly session state orders alice --set 'step 3'";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SessionCommand {
    /// List sessions
    List(List),
    /// Print, set or clear the state of a session that nobody holds
    State(State),
}

#[derive(Debug, clap::Args)]
struct List {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Only sessions whose state was set after: a time, or so long ago
    #[arg(long, value_name = "TIME", value_parser = Instant::parse)]
    updated_after: Option<Instant>,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectWithin,
}

#[derive(Debug, clap::Args)]
struct State {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Id of the session
    #[arg(value_name = "ID")]
    session: String,
    /// Set the state to this text
    #[arg(long, value_name = "TEXT")]
    set: Option<String>,
    /// Clear the state
    #[arg(long, conflicts_with = "set")]
    clear: bool,
    #[command(flatten)]
    connect: ConnectWithin,
}

pub async fn run(args: SessionArgs) -> anyhow::Result<()> {
    match args.command {
        SessionCommand::List(args) => list(args).await,
        SessionCommand::State(args) => state(args).await,
    }
}

async fn list(args: List) -> anyhow::Result<()> {
    let client = args.connect.client()?;
    let after = match args.updated_after {
        Some(after) => Some(after.ago(client.now().await?.now_ms)),
        None => None,
    };
    let sessions = client.sessions(&args.queue, after).await?;
    if args.json {
        let shown: Vec<_> = sessions.iter().map(json).collect();
        return terminal::json(&shown);
    }
    if sessions.is_empty() {
        return terminal::line("no sessions");
    }
    let instant = |ms: Option<u64>| ms.map_or_else(String::new, instant::show_ms);
    let row = |session: &v1::SessionInfo| {
        vec![
            session.session_id.clone(),
            terminal::count(session.active_message_count),
            terminal::count(session.deferred_message_count),
            terminal::bytes(session.state_bytes.into()),
            instant(session.state_changed_at_ms),
            instant(session.locked_until_ms),
        ]
    };
    let header = ["session", "active", "deferred", "state", "state set", "locked until"];
    terminal::line(terminal::table(&header, &[1, 2, 3], sessions.iter().map(row).collect()))
}

fn json(session: &v1::SessionInfo) -> serde_json::Value {
    serde_json::json!({
        "session_id": session.session_id,
        "active_message_count": session.active_message_count,
        "deferred_message_count": session.deferred_message_count,
        "state_bytes": session.state_bytes,
        "state_changed_at_ms": session.state_changed_at_ms,
        "locked_until_ms": session.locked_until_ms,
    })
}

async fn state(args: State) -> anyhow::Result<()> {
    let client: Client = args.connect.client()?;
    let options = ReceiverOptions { prefetch: 1, ..Default::default() };
    let session = client.accept_session(&args.queue, &args.session, options).await?;
    let done = match (args.set, args.clear) {
        (Some(text), _) => session.set_state(Some(text.into())).await,
        (None, true) => session.set_state(None).await,
        (None, false) => match session.state().await {
            Ok(Some(state)) => {
                session.close().await;
                return terminal::line(String::from_utf8_lossy(&state));
            }
            Ok(None) => {
                session.close().await;
                terminal::note("no state");
                return Ok(());
            }
            Err(error) => Err(error),
        },
    };
    session.close().await;
    Ok(done?)
}
