//! The `[metrics]` of bridge.toml: where Prometheus may read, and with which token.

use std::net::SocketAddr;

use serde::Deserialize;
use toml::Spanned;

use super::agents::credential;
use super::file::{Source, address};
use super::{ConfigError, Env, TokenHash};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scrape {
    /// A listener of its own, which asks for the token only if there is one.
    pub listen: Option<SocketAddr>,
    /// Good beside the owner's.
    pub token: Option<TokenHash>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMetrics {
    listen: Option<Spanned<String>>,
    token: Option<Spanned<String>>,
    token_env: Option<Spanned<String>>,
}

pub(super) fn check(source: &Source<'_>, raw: &RawMetrics, env: Env<'_>) -> Result<Scrape, ConfigError> {
    let listen = raw.listen.as_ref().map(|given| address(given.get_ref()).map_err(|why| source.value(given, "listen", &why))).transpose()?;
    if let (Some(token), Some(_)) = (&raw.token, &raw.token_env) {
        return Err(source.at(token.span(), "token", "[hidden]", "token_env is given too; one of them is enough"));
    }
    let token = credential(source, [&raw.token, &raw.token_env, &None], 1, env)?;
    Ok(Scrape { listen, token })
}
