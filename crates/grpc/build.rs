//! Generates the server side of the native API's services, and a client for this crate's tests. The
//! messages live in `wire`, so that both edges share one set of types.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let root = "../wire/proto";
    let files = [
        "entities",
        "messaging",
        "sessions",
        "transactions",
        "cluster",
        "namespaces",
        "backups",
        "faults",
        "history",
        "connections",
        "events",
        "support",
    ];
    let files = files.map(|name| format!("mayfly/v1/{name}.proto"));
    let descriptors = protox::compile(&files, [root])?;
    tonic_prost_build::configure()
        .client_mod_attribute("mayfly.v1", "#[cfg(test)]")
        .extern_path(".mayfly.v1", "::wire::v1")
        .compile_fds(descriptors)?;
    println!("cargo:rerun-if-changed={root}");
    Ok(())
}
