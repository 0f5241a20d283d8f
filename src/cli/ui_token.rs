//! `ui-token`: who may open the page. A new token for its owner, tokens for viewers who only read; on a running relay
//! through its control socket, else on the store.

use clap::Args;

use super::client::carry_out;
use super::{ConfigArgs, Outcome, complain};
use crate::wire::control::{Answer, Command};

#[derive(Args)]
#[command(after_help = "Examples:
  hermes-bridge ui-token                     a new owner token, as a link; the old one and its logins are void
  hermes-bridge ui-token --viewer claire     a token that opens the page for reading only
  hermes-bridge ui-token --list
  hermes-bridge ui-token --revoke claire     claire is out at once

Exit codes: 0 done, 1 it failed.")]
pub(crate) struct UiTokenArgs {
    /// A token that reads but does not act, instead of the owner's
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "viewer", conflicts_with_all = ["list", "revoke"])]
    viewer: Option<String>,
    /// Show the viewers
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// Take a viewer's token back
    #[arg(long, value_name = "NAME")]
    revoke: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: UiTokenArgs) -> Outcome {
    let config = args.config.load(None).map_err(|e| e.to_string())?;
    let command = match (args.viewer, args.revoke, args.list) {
        (Some(name), ..) => Command::ViewerAdd { name },
        (_, Some(name), _) => Command::ViewerRevoke { name },
        (.., true) => Command::ViewerList,
        _ => Command::UiToken,
    };
    match carry_out(&config, command)? {
        Answer::Failed(why) => return Err(why),
        Answer::Token { name, token, url } => {
            println!("{}", link(&url, &token));
            complain(&format!(
                "this link logs {name} in; it is shown only now. The part after # is the token, for the login page or Authorization: Bearer"
            ));
        }
        Answer::Viewers(rows) if rows.is_empty() => complain("there are no viewers"),
        Answer::Viewers(rows) => rows.iter().for_each(|row| println!("{:<40}  {}", row.name, row.since)),
        _ => println!("done"),
    }
    Ok(0)
}

/// The address that logs in whoever opens it. What stands after # stays in the browser: no log and no proxy sees it.
pub(crate) fn link(url: &str, token: &str) -> String {
    format!("{url}/ui/login#{token}")
}
