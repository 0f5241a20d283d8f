//! Shapes that travel: bytes or JSON to core types and back. Pure. Owns every field name that a bot, a client or a
//! script sees; decides nothing and words nothing that the core words.

pub mod audit;
pub mod control;
pub mod frames;
pub mod history;
pub mod install;
pub mod results;
pub mod tools;
