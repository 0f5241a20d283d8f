//! The `[ui]` of bridge.toml: the owner's token, how long a login lasts, whether there is one at all; and whose word about
//! a request's origin is believed.

use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::agents::{check_token, credential};
use super::file::Source;
use super::{ConfigError, Env, TokenHash};

/// Where the owner's token is looked for when bridge.toml names no other place.
const TOKEN_ENV: &str = "HERMES_BRIDGE_UI_TOKEN";
/// A token that people chose may be guessed; a long one takes longer than anybody has.
const SHORTEST: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ui {
    /// No login: whoever reaches the relay reads everything and acts as its owner.
    pub open: bool,
    /// The owner's token; `None`: the relay makes one.
    pub token: Option<TokenHash>,
    pub session: Duration,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUi {
    open: Option<bool>,
    token: Option<Spanned<String>>,
    token_env: Option<Spanned<String>>,
    token_sha256: Option<Spanned<String>>,
    session_days: Option<Spanned<u64>>,
}

pub(super) fn check(source: &Source<'_>, raw: &RawUi, env: Env<'_>) -> Result<Ui, ConfigError> {
    let given: Vec<_> = [&raw.token, &raw.token_env, &raw.token_sha256].into_iter().flatten().collect();
    if let [_, second, ..] = given[..] {
        return Err(source.at(second.span(), "[ui]", "[hidden]", "has more than one of token, token_env and token_sha256"));
    }
    let token = match (given.is_empty(), env(TOKEN_ENV)) {
        (true, Some(value)) => {
            let bad = |why| ConfigError::Environment { name: TOKEN_ENV.into(), why: format!("is no good as the owner's token: {why}") };
            check_token(&value, SHORTEST).map_err(bad)?;
            Some(TokenHash::of(&value))
        }
        (true, None) => None,
        (false, _) => credential(source, [&raw.token, &raw.token_env, &raw.token_sha256], SHORTEST, env)?,
    };
    let days = source.number(&raw.session_days, "session_days", 1..=365, 30)?;
    Ok(Ui { open: raw.open.unwrap_or(false), token, session: Duration::from_secs(days * 86_400) })
}

/// A range of addresses: `10.0.0.0/8`, `::1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address.parse::<IpAddr>().ok()?, Some(prefix.parse::<u32>().ok()?)),
            None => (text.parse().ok()?, None),
        };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        (prefix <= bits).then_some(Self { address, prefix })
    }

    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, bits: u32| self.prefix == 0 || (a ^ b) >> (bits - self.prefix) == 0;
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
            _ => false,
        }
    }
}

/// Proxies on the relay's own machine are believed unless the list says otherwise: whoever can call from there is inside.
pub(super) fn proxies(source: &Source<'_>, raw: Option<&[Spanned<String>]>) -> Result<Vec<Network>, ConfigError> {
    let Some(raw) = raw else { return Ok(["127.0.0.0/8", "::1"].iter().filter_map(|n| Network::parse(n)).collect()) };
    let network = |text: &Spanned<String>| {
        Network::parse(text.get_ref()).ok_or_else(|| source.value(text, "trusted_proxies", "an address or a range like 10.0.0.0/8 is expected"))
    };
    raw.iter().map(network).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_own_addresses_only() {
        let contains = |network: &str, address: &str| Network::parse(network).unwrap().contains(address.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.200.3.4") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("127.0.0.0/8", "::ffff:127.0.0.1"));
        assert!(contains("fd00::/8", "fd12::1") && !contains("fd00::/8", "fe80::1") && !contains("fd00::/8", "10.0.0.1"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && contains("192.168.1.5", "192.168.1.5") && !contains("192.168.1.5", "192.168.1.6"));
        for bad in ["10.0.0.0/33", "x", "10.0.0.0/", "::1/129", ""] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }
}
