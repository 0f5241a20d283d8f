//! `serve`: everything is started in order, and stopped in the reversed order, on this one screen.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{ConfigArgs, Outcome, ui_token};
use crate::config::{Config, LogFormat, Secret};
use crate::engine::{Engine, Kind, Minted, Reloaded};
use crate::inbound::{self, control};
use crate::lasting::lasting;
use crate::outbound::{self, Exports};
use crate::store::{self, Store};

/// What is said when RUST_LOG says nothing else: this project's events, and of others only what is wrong. To rmcp's service each
/// caller that leaves before its answer is an error; here it is an ordinary thing.
const LOG_FILTER: &str = "info,rmcp=error,rmcp::service=off,tantivy=warn,hyper=warn,warp=warn";
/// Who acts here, in the security log.
const RELAY: &str = "relay";
/// A stop takes at most so long after the last connection was let go.
const RUNTIME_STOP: Duration = Duration::from_secs(2);

#[derive(Args, Default)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address to listen on, like 127.0.0.1:8787; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

pub(crate) fn run(args: ServeArgs) -> Outcome {
    let config = args.config.load(args.listen.clone()).map_err(|e| e.to_string())?;
    start_logging(config.log_format);
    let runtime = super::many_threads()?;
    let outcome = runtime.block_on(serve(config, args));
    runtime.shutdown_timeout(RUNTIME_STOP);
    outcome
}

async fn serve(config: Config, args: ServeArgs) -> Outcome {
    let listener = TcpListener::bind(config.listen).await.map_err(|e| cannot_listen(&config, &e))?;
    let bound = listener.local_addr().map_err(|e| format!("the listener has no address: {e}"))?;
    let scraped = match config.scrape.listen {
        None => None,
        Some(at) => Some(TcpListener::bind(at).await.map_err(|e| format!("cannot listen on {at} for metrics: {e}; change listen in [metrics]"))?),
    };
    let store = Arc::new(open_store(&config)?);
    let written = store.ended();
    let exports = Arc::new(outbound::start(&config, &store).await?);
    let engine = Engine::start(config.clone(), store).map_err(|e| e.to_string())?;
    let minted = engine.mint_missing().await.map_err(|e| e.to_string())?;
    let owner_token = engine.mint_owner_token().await.map_err(|e| e.to_string())?;
    let stop = CancellationToken::new();
    let owner = control::bind(&config.data_dir).map_err(|e| format!("{}: the control socket cannot be opened: {e}", config.data_dir.display()))?;
    let serve_owner = {
        let (engine, stop) = (engine.clone(), stop.clone());
        async move || control::serve(&owner, engine.clone(), bound, stop.clone()).await
    };
    let owner = tokio::spawn(lasting("the owner's door", stop.clone(), serve_owner));
    // Before anybody hears that the relay is there: whoever knows may send a signal.
    let mut signals = Signals::listen()?;
    note_minted(&engine, &minted, owner_token.is_some()).await;
    engine.keep_up(exports.followers());
    if let Some(listener) = scraped {
        let at = listener.local_addr().map_err(|e| format!("the metrics' listener has no address: {e}"))?;
        println!("metrics at http://{at}/metrics");
        let (engine, stopping) = (engine.clone(), stop.clone());
        let serve = async move || inbound::metrics::serve(&listener, engine.clone(), stopping.clone()).await;
        tokio::spawn(lasting("the metrics' listener", stop.clone(), serve));
    }
    greet(&config, bound, &minted, owner_token.as_ref());
    let obedient = {
        let (engine, exports, stop, written) = (engine.clone(), exports.clone(), stop.clone(), written.clone());
        async move || obey(&mut signals, &engine, &exports, &args, &written, &stop).await
    };
    tokio::spawn(lasting("the listening to signals", stop.clone(), obedient));

    inbound::serve(listener, engine.clone(), stop).await;

    let _ = owner.await;
    exports.stop().await;
    super::close(engine).await?;
    tracing::info!("stopped");
    Ok(0)
}

/// An erasure in the last run has the file written anew first.
fn open_store(config: &Config) -> Result<Store, String> {
    let mut told = std::time::Instant::now();
    let mut watch = |stage: &'static str, done: u64, of: u64| {
        if told.elapsed() > Duration::from_secs(2) {
            told = std::time::Instant::now();
            tracing::info!(done, of, "{stage}: the store's file is written anew because something was erased");
        }
        true
    };
    match store::rewrite_if_marked(&config.data_dir, &mut watch) {
        Ok(true) => tracing::info!("the store's file was written anew: nothing of what was erased is left in it"),
        Ok(false) => {}
        // Without room the relay relays all the same; the mark stays for the next start.
        Err(e) => tracing::error!(error = %e, "the store's file could not be written anew after an erasure; make room and restart, or run compact"),
    }
    Store::open(&config.data_dir).map_err(|e| e.to_string())
}

fn cannot_listen(config: &Config, error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        std::io::ErrorKind::AddrInUse => "another program uses this port: stop it, or choose another with --listen",
        std::io::ErrorKind::PermissionDenied => "ports below 1024 need rights: choose a higher one with --listen",
        _ => "choose an address of this machine with --listen, or in bridge.toml",
    };
    format!("cannot listen on {}: {error}; {remedy}", config.listen)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> Result<Self, String> {
        let on = |kind| signal(kind).map_err(|e| format!("signals cannot be received: {e}"));
        Ok(Self { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())?, hangup: on(SignalKind::hangup())? })
    }
}

/// Stops on SIGTERM and SIGINT, and when nothing can be written any more; reads the configuration anew on SIGHUP.
async fn obey(
    signals: &mut Signals,
    engine: &Arc<Engine>,
    exports: &Exports,
    args: &ServeArgs,
    written: &CancellationToken,
    stop: &CancellationToken,
) {
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
            () = written.cancelled() => break,
            _ = signals.hangup.recv() => reload(engine, exports, args).await,
        }
    }
    tracing::info!("stopping");
    stop.cancel();
}

/// A configuration that cannot be read changes nothing.
async fn reload(engine: &Arc<Engine>, exports: &Exports, args: &ServeArgs) {
    let changed = match args.config.load(args.listen.clone()) {
        Ok(config) => engine.reconfigure(config).await.map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    };
    match changed {
        Ok(Reloaded { minted, waiting }) => {
            exports.hide(engine.config().clear_tokens.clone());
            note_reload(engine, &waiting).await;
            note_minted(engine, &minted, false).await;
            show_tokens(&minted);
            match engine.mint_owner_token().await {
                Ok(Some(token)) => {
                    println!("\nThe page's owner token, shown only now: {}", token.reveal());
                    note_minted(engine, &[], true).await;
                }
                Ok(None) => {}
                Err(e) => tracing::error!(error = %e, "the page has no owner token"),
            }
        }
        Err(e) => {
            tracing::error!(error = %e, "the configuration was not taken over; the old one stays");
            let _ = engine.audit(Kind::Configuration, RELAY, None, &format!("not taken over: {e}")).await;
        }
    }
}

async fn note_reload(engine: &Engine, waiting: &[&str]) {
    let (agents, waiting) = (engine.listed_agents().len(), waiting.join(", "));
    tracing::info!(agents, "read the configuration anew");
    let mut done = format!("read anew: {agents} agents");
    if !waiting.is_empty() {
        tracing::warn!(keys = %waiting, "these keys have changed and wait for the next start; until then the relay works by their old values");
        done = format!("{done}; for the next start: {waiting}");
    }
    let _ = engine.audit(Kind::Configuration, RELAY, None, &done).await;
}

async fn note_minted(engine: &Engine, minted: &[Minted], owner: bool) {
    for what in minted.iter().map(|one| format!("a token made for agent {}", one.name)).chain(owner.then(|| "an owner token made".to_owned())) {
        let _ = engine.audit(Kind::Token, RELAY, None, &what).await;
    }
}

fn greet(config: &Config, bound: SocketAddr, minted: &[Minted], owner_token: Option<&Secret>) {
    let url = config.base_url(bound);
    println!("hermes-bridge {}  data in {}", env!("CARGO_PKG_VERSION"), config.data_dir.display());
    println!("listening on http://{bound}");
    println!("everything that is said: {url}/ui");
    if let Some(token) = owner_token {
        println!("  this link logs you in, shown only now: {}", ui_token::link(&url, token.reveal()));
    }
    if config.ui.open {
        println!("  WITHOUT LOGIN ([ui] open = true): whoever reaches it reads everything and acts as the owner");
    }
    show_tokens(minted);
    if !minted.is_empty() {
        let socket = url.replacen("http", "ws", 1);
        println!();
        println!("To connect a bot, give it these two:");
        println!("  HERMES_BRIDGE_RELAY_URL={socket}/bridge/connect");
        println!("  HERMES_BRIDGE_TOKEN=<its token>");
        println!("Or any MCP client: {url}/mcp with the header  Authorization: Bearer <its token>");
    }
}

fn show_tokens(minted: &[Minted]) {
    if minted.is_empty() {
        return;
    }
    println!();
    println!("Tokens made for agents that had none, shown only now:");
    for one in minted {
        println!("  {:<20} {}", one.name.as_str(), one.token.reveal());
    }
}

fn start_logging(format: LogFormat) {
    // Others stay quiet unless they are named: rmcp says three lines a request at info, tantivy each file at debug.
    let wish = crate::config::process_env("RUST_LOG").map_or_else(|| LOG_FILTER.to_owned(), |wish| format!("{LOG_FILTER},{wish}"));
    let filter = tracing_subscriber::EnvFilter::try_new(&wish).unwrap_or_else(|e| {
        super::complain(&format!("RUST_LOG is not understood ({e}) and not followed"));
        LOG_FILTER.into()
    });
    // Colours are for eyes: a file, a pipe or a container's log gets none.
    let colours = std::io::stderr().is_terminal() && crate::config::process_env("NO_COLOR").is_none();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).with_ansi(colours);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
