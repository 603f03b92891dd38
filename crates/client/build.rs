//! Generates the client side of the native API's services, and for the tests' broker the server
//! side. The messages live in `wire`, so that both edges share one set of types.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = "../wire/proto";
    println!("cargo:rerun-if-changed={root}");
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
    let services = || tonic_prost_build::configure().extern_path(".mayfly.v1", "::wire::v1");
    services().build_server(false).compile_fds(descriptors.clone())?;

    let broker = PathBuf::from(env::var("OUT_DIR")?).join("broker");
    fs::create_dir_all(&broker)?;
    services().build_client(false).out_dir(broker).compile_fds(descriptors)?;
    Ok(())
}
