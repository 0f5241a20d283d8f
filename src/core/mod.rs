//! The rules. Pure: inputs and the moment go in, effects in order come out. No I/O, no clock, no randomness, no tokio,
//! no serde: the driver (`engine`) has those, and hours of protocol are tested here in milliseconds.

pub mod audit;
mod circuit;
pub mod effect;
pub mod exchange;
pub mod ids;
mod judge;
pub mod late;
mod loops;
pub mod outcome;
pub mod pace;
pub mod person;
pub mod policy;
pub mod presence;
mod quota;
pub mod registry;
pub mod relay;
pub mod replies;
pub mod trace;

#[cfg(test)]
mod tests;
