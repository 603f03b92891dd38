//! Compiles what workers are told and tell. `protox` reads the proto file, so that no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["mayfly/load/v1/workers.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        // It holds keys; `api` has one that shows none.
        .skip_debug([".mayfly.load.v1.Target"])
        .compile_fds(files)?;
    Ok(())
}
