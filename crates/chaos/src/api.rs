//! What a fault experiment and its agents say to each other, as generated.

#![allow(clippy::all, clippy::pedantic)]

tonic::include_proto!("mayfly.chaos.v1");
