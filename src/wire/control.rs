//! What the commands of the same machine say to a running relay, one JSON line each way over a socket in its data
//! directory. Whoever can open that file owns the data anyway.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    AgentAdd {
        name: String,
    },
    AgentRotate {
        name: String,
    },
    AgentRevoke {
        name: String,
    },
    AgentList,
    /// Build the search index anew, from the log.
    Reindex,
    /// How far that is.
    Indexing,
    /// A new token for the page's owner.
    UiToken,
    ViewerAdd {
        name: String,
    },
    ViewerRevoke {
        name: String,
    },
    ViewerList,
    /// A token that reads the page's API as long as the relay lives: for `search` and `export`.
    LendPage,
    /// A token for that agent that lives as long as the relay does: for `ask` and `listen` on the relay's own machine.
    Lend {
        name: String,
    },
    /// Take a backup into this new directory; `Progress` says how far it is.
    Backup {
        dir: PathBuf,
    },
    /// Take the exchanges of a conversation or an agent off the record, or only count them; `Progress` says how far it is.
    Erase {
        #[serde(default)]
        conversation: Option<String>,
        #[serde(default)]
        agent: Option<String>,
        dry_run: bool,
    },
    /// What was ever erased.
    Erasures,
    /// How far the latest long work is.
    Progress,
    /// What the relay says of itself.
    About,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Token {
        name: String,
        token: String,
        url: String,
    },
    Agents(Vec<AgentRow>),
    Viewers(Vec<ViewerRow>),
    Done,
    /// Positions of the log that the index has, and that there are.
    Indexing {
        done: u64,
        of: u64,
        ready: bool,
    },
    Progress {
        stage: String,
        done: u64,
        of: u64,
        /// How it ended, once it has.
        outcome: Option<Result<String, String>>,
    },
    About {
        version: String,
        /// The address that it is bound to.
        listen: String,
        /// Why it cannot do all its work at the moment.
        troubles: Vec<String>,
        #[serde(default)]
        exports: Vec<ExportRow>,
    },
    Erasures(Vec<ErasureRow>),
    Failed(String),
}

/// One way out, and how far it is.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct ExportRow {
    pub sink: String,
    /// Positions of the log that it has not passed.
    pub behind: u64,
    /// For so many seconds no request of it was taken; at most since the start.
    pub quiet: u64,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct ErasureRow {
    /// RFC 3339; for what is removed by its age or size, the day.
    pub at: String,
    pub what: String,
    pub exchanges: u64,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    pub name: String,
    /// `bridge.toml` or `agent add`.
    pub source: String,
    pub online: bool,
    /// RFC 3339.
    pub last_seen: Option<String>,
    pub adapter: Option<String>,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct ViewerRow {
    pub name: String,
    /// RFC 3339.
    pub since: String,
}
