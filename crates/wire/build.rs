//! Compiles the protos to messages, without services: those are generated where they are served or
//! called, with `extern_path(".mayfly.v1", "::wire::v1")`, so tonic stays out of this crate.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const FILES: [&str; 12] = [
    "mayfly/v1/messaging.proto",
    "mayfly/v1/sessions.proto",
    "mayfly/v1/transactions.proto",
    "mayfly/v1/entities.proto",
    "mayfly/v1/cluster.proto",
    "mayfly/v1/namespaces.proto",
    "mayfly/v1/backups.proto",
    "mayfly/v1/faults.proto",
    "mayfly/v1/history.proto",
    "mayfly/v1/connections.proto",
    "mayfly/v1/events.proto",
    "mayfly/v1/support.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(FILES)?;

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .bytes(".")
        .btree_map(".")
        // It holds keys; `lib.rs` has one that shows none.
        .skip_debug([".mayfly.v1.AuthorizationRule"])
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
