//! The generated service clients.
#![allow(clippy::all, missing_docs)]

tonic::include_proto!("mayfly.v1");
