//! File handles: every connection takes one, and what a process gets by default is for few.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::config::Config;
use super::fronts::HTTP_CONNECTIONS_MAX;

/// Of the databases, of connections between nodes and of gRPC clients.
const OTHERS: u64 = 4_096;

/// Raises this process's limit to what its connections need, and says so where it cannot.
pub fn raise(config: &Config) {
    let needed = (config.amqp.connections_max + HTTP_CONNECTIONS_MAX) as u64 + OTHERS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft >= needed {
        return;
    }
    // Beyond the hard limit only the superuser gets.
    if setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).is_ok() {
        return;
    }
    let most = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    if most < needed {
        tracing::warn!(
            "this process may open {most} files, and amqp.connections_max = {} takes {needed}; raise the \
             limit (ulimit -n, LimitNOFILE), or lower that",
            config.amqp.connections_max
        );
    }
}
