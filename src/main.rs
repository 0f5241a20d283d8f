//! argv in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    hermes_bridge::cli::main()
}
