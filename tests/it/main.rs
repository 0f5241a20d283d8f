//! The relay from outside: the real program as a child process on a free port in a directory of its own, driven over its
//! doors as bots, clients and their owner would. One file a topic, one sentence a test; `rig` has the hands for it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::type_complexity)]

mod asking;
mod audit;
mod cli;
mod container;
mod conversations;
mod crash;
mod erasing;
mod exports;
mod fuzz;
mod half_open;
mod hostile;
mod hostile_bot;
mod idempotency;
mod importing;
mod install;
mod keeping;
mod late;
mod logging;
mod login;
mod loops;
mod metrics;
mod person;
mod presence;
mod queue;
mod readme;
mod refusals;
mod refused;
mod reload;
mod restart;
mod rig;
mod search;
mod stop;
mod store_trouble;
mod torture;
mod trust;
mod untaken;
mod upgrade;
mod wakes;
mod websocket;
