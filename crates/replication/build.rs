//! Compiles the peer protocol. `protox` reads the proto files, so that no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["mayfly/peer/v1/peer.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::peer::codec::PeerCodec")
        .compile_fds(files)?;
    Ok(())
}
