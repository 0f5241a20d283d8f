//! The `[metrics]` of bridge.toml: where Prometheus may read, and with which token.

use std::net::SocketAddr;

use serde::Deserialize;
use toml::Spanned;

use super::agents::credential;
use super::file::{Source, address};
use super::{ConfigError, Env, TokenHash};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scrape {
    /// A listener of its own, which asks for the token if there is one; there is, unless it is a loopback address.
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
    if let (Some(given), Some(at), None) = (&raw.listen, listen, &token)
        && !at.ip().is_loopback()
    {
        let why = "beyond this machine metrics need a token: set token (or token_env) in [metrics], or listen on 127.0.0.1";
        return Err(source.value(given, "listen", why));
    }
    Ok(Scrape { listen, token })
}
