//! hermes-bridge: agents ask each other, wait for the answer, and their owner reads and searches all of it.
//! The map of the house is `src/README.md`.

pub mod cli;
pub mod config;
pub mod core;
pub mod engine;
pub mod inbound;
pub mod lasting;
pub mod metrics;
pub mod outbound;
pub mod search;
pub mod store;
pub mod wire;
