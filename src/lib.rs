//! hermes-bridge: agents ask each other, wait for the answer, and their owner reads and searches all of it.
//! The map of the house is `src/README.md`.

pub mod core;
pub mod store;
