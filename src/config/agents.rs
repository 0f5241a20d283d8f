//! The `[[agents]]` and `[[groups]]` of bridge.toml: names, credentials, who may ask whom.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use toml::Spanned;

use super::file::Source;
use super::{ConfigError, Env, Secret, TokenHash};
use crate::core::ids::AgentName;
use crate::core::policy::{MAX_NOTE, Note, Permissions, json_len};

/// Tokens of the original's samples and of ours; nobody may run with one.
const SAMPLES: [&str; 4] = ["change-me", "changeme", "your-token", "secret-token"];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentEntry {
    pub name: AgentName,
    /// `None`: the relay makes a token.
    pub credential: Option<Credential>,
}

/// How an agent of bridge.toml proves who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential(pub TokenHash);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAgent {
    name: Spanned<String>,
    token: Option<Spanned<String>>,
    token_env: Option<Spanned<String>>,
    token_sha256: Option<Spanned<String>>,
    may_ask: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    groups: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGroup {
    name: Spanned<String>,
    #[serde(default)]
    members: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTrust {
    from: Spanned<String>,
    to: Spanned<String>,
    note: Spanned<String>,
}

type Groups = BTreeMap<String, HashSet<AgentName>>;

pub(super) fn check(
    source: &Source<'_>,
    agents: &[RawAgent],
    groups: &[RawGroup],
    trust: &[RawTrust],
    env: Env<'_>,
) -> Result<(Vec<AgentEntry>, Permissions, Vec<Secret>), ConfigError> {
    let mut entries: Vec<AgentEntry> = Vec::new();
    let mut tokens: HashMap<[u8; 8], AgentName> = HashMap::new();
    for raw in agents {
        let name = name(source, "name", &raw.name)?;
        if name.is_reserved() {
            return Err(source.value(&raw.name, "name", "the relay's owner asks under this name; an agent needs another"));
        }
        if entries.iter().any(|e| e.name == name) {
            return Err(source.value(&raw.name, "name", "two agents have this name (names are not case-sensitive)"));
        }
        let given = [&raw.token, &raw.token_env, &raw.token_sha256];
        if given.into_iter().flatten().count() > 1 {
            return Err(source.value(&raw.name, "name", "has more than one of token, token_env and token_sha256"));
        }
        let credential = credential(source, given, 1, env)?.map(Credential);
        if let Some(Credential(hash)) = &credential
            && let Some(other) = tokens.insert(hash.bucket(), name.clone())
        {
            return Err(source.value(&raw.name, "name", &format!("has the same token as {other}; each agent needs its own")));
        }
        entries.push(AgentEntry { name, credential });
    }
    let groups = memberships(source, agents, groups, &entries)?;
    let mut may_ask = HashMap::new();
    for (raw, entry) in agents.iter().zip(&entries) {
        if let Some(list) = &raw.may_ask
            && let Some(allowed) = named(source, "may_ask", list, &entries, &groups)?
        {
            may_ask.insert(entry.name.clone(), allowed);
        }
    }
    let clear = agents.iter().filter_map(|raw| clear_token(raw, env)).collect();
    let notes = trust.iter().map(|raw| note(source, raw, &entries, &groups)).collect::<Result<_, _>>()?;
    Ok((entries, Permissions { may_ask, notes }, clear))
}

fn note(source: &Source<'_>, raw: &RawTrust, entries: &[AgentEntry], groups: &Groups) -> Result<Note, ConfigError> {
    let who = |key, name: &Spanned<String>| named(source, key, std::slice::from_ref(name), entries, groups);
    let text = raw.note.get_ref().trim();
    if text.is_empty() || text.chars().any(char::is_control) || json_len(text) > MAX_NOTE {
        return Err(source.value(&raw.note, "note", "one line of 1 to 400 bytes is expected"));
    }
    Ok(Note { from: who("from", &raw.from)?, to: who("to", &raw.to)?, text: text.into() })
}

fn name(source: &Source<'_>, key: &str, raw: &Spanned<String>) -> Result<AgentName, ConfigError> {
    AgentName::parse(raw.get_ref()).ok_or_else(|| source.value(raw, key, "a name has 1 to 64 of a-z 0-9 . _ - and begins with a letter or digit"))
}

/// The hash of the token that one of `token`, `token_env` and `token_sha256` gives; in clear it has `shortest` characters
/// at least.
pub(super) fn credential(
    source: &Source<'_>,
    [token, variable, hash]: [&Option<Spanned<String>>; 3],
    shortest: usize,
    env: Env<'_>,
) -> Result<Option<TokenHash>, ConfigError> {
    let clear = match (token, variable) {
        (Some(token), _) => Some((token.span(), Secret::new(token.get_ref().clone()))),
        (_, Some(variable)) => {
            let value = env(variable.get_ref()).ok_or_else(|| source.value(variable, "token_env", "this environment variable is not set"))?;
            Some((variable.span(), Secret::new(value)))
        }
        _ => None,
    };
    if let Some((span, token)) = clear {
        check_token(token.reveal(), shortest).map_err(|why| source.at(span, "token", "[hidden]", &why))?;
        return Ok(Some(token.hash()));
    }
    let Some(hash) = hash else { return Ok(None) };
    TokenHash::parse(hash.get_ref()).map(Some).ok_or_else(|| source.value(hash, "token_sha256", "64 hexadecimal digits are expected"))
}

/// A token that the configuration has in clear.
fn clear_token(raw: &RawAgent, env: Env<'_>) -> Option<Secret> {
    let here = raw.token.as_ref().map(|token| token.get_ref().clone());
    here.or_else(|| env(raw.token_env.as_ref()?.get_ref())).map(Secret::new)
}

pub(super) fn check_token(token: &str, shortest: usize) -> Result<(), String> {
    if SAMPLES.iter().any(|s| token.to_ascii_lowercase().starts_with(s)) {
        return Err("this is a sample token; leave it out and the relay makes a good one".to_owned());
    }
    if token.trim() != token || token.chars().count() < shortest || token.chars().any(char::is_control) {
        return Err(format!("a token has at least {shortest} characters, no spaces around it and no control characters"));
    }
    Ok(())
}

fn memberships(source: &Source<'_>, agents: &[RawAgent], groups: &[RawGroup], entries: &[AgentEntry]) -> Result<Groups, ConfigError> {
    let mut all = Groups::new();
    for group in groups {
        let members = all.entry(group.name.get_ref().clone()).or_default();
        for member in &group.members {
            let found = AgentName::parse(member.get_ref()).filter(|m| entries.iter().any(|e| e.name == *m));
            members.insert(found.ok_or_else(|| source.value(member, "members", "no agent has this name"))?);
        }
    }
    for (raw, entry) in agents.iter().zip(entries) {
        for group in &raw.groups {
            all.entry(group.get_ref().clone()).or_default().insert(entry.name.clone());
        }
    }
    if let Some(empty) = groups.iter().find(|group| all.get(group.name.get_ref()).is_none_or(HashSet::is_empty)) {
        return Err(source.value(&empty.name, "name", "nobody is in this group: name members here, or the group in an agent's groups"));
    }
    Ok(all)
}

/// `None` for everybody.
fn named(
    source: &Source<'_>,
    key: &str,
    list: &[Spanned<String>],
    entries: &[AgentEntry],
    groups: &Groups,
) -> Result<Option<HashSet<AgentName>>, ConfigError> {
    let mut names = HashSet::new();
    for item in list {
        let text = item.get_ref().as_str();
        let named = AgentName::parse(text).filter(|n| entries.iter().any(|e| e.name == *n));
        match (text, groups.get(text), named) {
            ("*", ..) => return Ok(None),
            (_, Some(members), _) => names.extend(members.iter().cloned()),
            (_, None, Some(name)) => drop(names.insert(name)),
            (_, None, None) => return Err(source.value(item, key, "no agent and no group has this name")),
        }
    }
    Ok(Some(names))
}
