//! What a coordinator and its workers say to each other, as generated.

#![allow(clippy::all, clippy::pedantic)]

tonic::include_proto!("mayfly.load.v1");

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}
