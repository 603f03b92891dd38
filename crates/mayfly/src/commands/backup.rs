//! `mayfly backup`.

mod create;
mod key;
mod list;
mod place;
mod prune;
mod restore;
mod verify;

use clap::Subcommand;
use nix::sys::stat::{Mode, umask};
use tokio::signal::unix::{SignalKind, signal};

const EXAMPLES: &str = "\
Examples:
  mayfly backup create /var/backups/mayfly
  mayfly backup create s3://my-bucket/mayfly --key-file /etc/mayfly/backup.key
  mayfly backup restore /var/backups/mayfly --connect new-1:5310
  mayfly backup key /etc/mayfly/backup.key
  mayfly backup list /var/backups/mayfly
  mayfly backup list s3://my-bucket/mayfly --key-file /etc/mayfly/backup.key
  mayfly backup verify /var/backups/mayfly                    the newest
  mayfly backup verify /var/backups/mayfly 2026-11-27T09-15-00Z
  mayfly backup prune /var/backups/mayfly --keep-within 1d --keep-daily 30 --dry-run

A place is a directory (/a/directory, ./directory, file:///a/directory) or s3://bucket/prefix, of Amazon or of what
speaks its protocol: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and the like say how it is
reached. Only create and restore ask a cluster, with a key that may operate, manage and listen.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BackupArgs {
    #[command(subcommand)]
    command: BackupCommand,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Back up the whole cluster, as of one instant, while it is used
    Create(create::CreateArgs),
    /// Make a backup's entities those of a new cluster, which has none
    Restore(restore::RestoreArgs),
    /// Backups of a place, newest first
    List(list::ListArgs),
    /// Read all of a backup, and tell what is missing or damaged; exit code 1 if anything is
    Verify(verify::VerifyArgs),
    /// Delete the backups that are not to be kept, and what none of the others needs
    Prune(prune::PruneArgs),
    /// Write a new key, for encrypted backups
    Key(key::KeyFileArgs),
}

pub async fn run(args: BackupArgs) -> anyhow::Result<()> {
    // Messages are in backups, and keys in their files: what is made is for its owner alone.
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    match args.command {
        BackupCommand::Create(args) => create::run(args).await,
        BackupCommand::Restore(args) => restore::run(args).await,
        BackupCommand::List(args) => list::run(args).await,
        BackupCommand::Verify(args) => verify::run(args).await,
        BackupCommand::Prune(args) => prune::run(args).await,
        BackupCommand::Key(args) => key::run(&args),
    }
}

/// Ends when this process is asked to end: what it holds at a place is let go of then, for others that wait.
async fn interrupted() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => (),
        _ = terminate.recv() => (),
    }
}
