//! File handles: every connection takes one, and what a process gets by default is for few.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use transport::HandleReserve;

use super::config::Config;

/// Of the databases, and of connections between nodes.
const OTHERS: u64 = 4_096;

/// Raises this process's limit to what its connections need, and says so where it cannot. What of it
/// connections leave to the node.
pub fn raise(config: &Config) -> HandleReserve {
    let (amqp, grpc) = (config.amqp.connections_max, config.grpc_connections_max);
    let http = config.http_connections_max;
    let needed = (amqp + grpc + http) as u64 + OTHERS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return HandleReserve::default();
    };
    if soft >= needed {
        return HandleReserve::of(soft);
    }
    // Beyond the hard limit only the superuser gets.
    if setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).is_ok() {
        return HandleReserve::of(needed);
    }
    let most = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    if most < needed {
        tracing::warn!(
            "this process may open {most} files, and amqp.connections_max = {amqp} with \
             grpc.connections_max = {grpc} and http.connections_max = {http} takes {needed}; raise the limit (ulimit -n, LimitNOFILE), or \
             lower those"
        );
    }
    HandleReserve::of(most)
}
