//! The `mayfly` binary: one node (`serve`), a cluster on this machine (`up`), the demo job, and the
//! commands of whoever works with queues.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage (flags, configuration), 3 a node that was removed from
//! its cluster, so that whoever starts nodes again leaves it down, 4 a node whose replicas have all stopped, so
//! that whoever supervises it starts it again. `definitions diff` ends with 2 where something differs. A failure
//! is one line on standard error that names what is wrong and what to do instead.

mod arguments;
mod authority;
mod cli;
mod commands;
mod connect;
mod demo;
mod emulator;
mod faults;
mod files;
mod input;
mod interruption;
#[cfg(test)]
mod reference;
mod serve;
mod terminal;
mod topology;
mod up;

use std::process::ExitCode;

/// Steadier under a broker's load than the system's: freed pages go back, arenas do not multiply.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    arguments::hide_secrets();
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return terminal::fail(&error.into()),
    };
    let result = runtime.block_on(cli.run());
    // What still runs in the background is of no use to anybody any more.
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(error) => terminal::fail(&error),
    }
}
