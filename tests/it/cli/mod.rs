//! The program at a shell: what its owner types, what it prints, how it exits.

mod agents;
mod commands;
mod refusing;
mod secrets;
