//! The accept loop: how many connections at once, how long each may take to say something, and where a request goes.
//! hyper-util under warp and rmcp, because the time limits, the upgrade and the orderly stop are only to be had here.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::service::Service;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::gate::{Gate, Share, TooMuch};
use super::peer::Peer;
use super::turned::Turned;
use super::worded::Worded;
use super::{Body, alive, auth, body, error, hosts, mcp, metrics, peer, refused, routes, ui, websocket};
use crate::config::DoorLimits;
use crate::engine::{Engine, caller};

/// A connection that says nothing at all for so long is closed.
const FIRST_BYTE: Duration = Duration::from_secs(10);
/// For the first request, for the head of each, and between two: shorter breaks clients that keep connections for later.
const HEADER: Duration = Duration::from_secs(75);
/// What Node takes too. Of each connection so much may be half sent: it is most of what ten thousand hostile ones can hold.
pub(super) const MAX_HEAD: usize = 16 * 1024;
/// What a page's form brings: an answer that a person writes, percent-encoded.
const MAX_FORM: usize = 1 << 20;
/// What is still under way at a stop gets so long to end.
const DRAIN: Duration = Duration::from_secs(4);

/// Serves until `stop` is cancelled, then lets go of everything in order and returns.
pub async fn serve(listener: TcpListener, engine: Arc<Engine>, stop: CancellationToken) {
    let max = engine.config().doors.max_connections;
    let places = Arc::new(Semaphore::new(max));
    let end_streams = CancellationToken::new();
    let gate = Arc::<Gate>::default();
    let router = Router {
        web: Arc::new(routes::routes(engine.clone(), gate.clone())),
        mcp: mcp::Mcp::new(engine.clone(), gate.clone(), end_streams.clone()),
        gate: gate.clone(),
        engine: engine.clone(),
        sockets: TaskTracker::new(),
    };
    let (graceful, turned) = (GracefulShutdown::new(), Turned::default());
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = stop.cancelled() => break,
        };
        let Some((tcp, from)) = accepted else { continue };
        match place(&places, &gate, caller(from.ip()), &engine.config().doors) {
            Ok(place) => connection(tcp, from, router.clone(), &graceful, place),
            Err((status, over)) => {
                over.note(&engine, "", from.ip());
                turned.away(tcp, over.bytes(status));
            }
        }
    }
    drop(listener);
    engine.stop().await;
    router.sockets.close();
    let drained = async {
        tokio::join!(graceful.shutdown(), router.sockets.wait());
    };
    // Callers have been let go by the engine; the streams that carry their results end by themselves.
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("some connections did not end in time and are cut");
    }
    end_streams.cancel();
}

/// A place for a connection, or which limit has none and the status that says so: of one address, or of the whole relay.
fn place(places: &Arc<Semaphore>, gate: &Gate, from: IpAddr, doors: &DoorLimits) -> Result<Place, (StatusCode, TooMuch)> {
    let mut share = gate.connections.share(from);
    let held = share.hold(1, doors.max_connections_per_address, "max_connections_per_address");
    held.map_err(|over| (StatusCode::TOO_MANY_REQUESTS, over))?;
    let full = TooMuch { limit: "max_connections", max: doors.max_connections, retry_in_ms: 5_000 };
    let permit = places.clone().try_acquire_owned().map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, full))?;
    Ok(Place { _permit: permit, _share: share })
}

async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(e) => {
            tracing::warn!(error = %e, "cannot accept connections");
            super::rest_from_accepting().await;
            None
        }
    }
}

/// What an open connection takes, given back when it ends. A WebSocket keeps it after the upgrade.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    _share: Share<IpAddr>,
}

fn connection(tcp: TcpStream, from: SocketAddr, router: Router, graceful: &GracefulShutdown, place: Place) {
    let watcher = graceful.watcher();
    alive::watch(&tcp);
    let stopping = router.engine.stopping();
    tokio::spawn(async move {
        // A WebSocket gives the place back with its own end, not with the upgrade.
        let place = Arc::new(place);
        let speaks = tokio::select! {
            speaks = alive::speaks(&tcp, FIRST_BYTE) => speaks,
            () = stopping.cancelled() => false,
        };
        if !speaks {
            return;
        }
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER).max_buf_size(MAX_HEAD);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(64)
            .keep_alive_interval(Duration::from_secs(20))
            .max_header_list_size(MAX_HEAD as u32);
        let (engine, asked) = (router.engine.clone(), Arc::<AtomicBool>::default());
        let service = PerConnection { router, from, place, asked: asked.clone() };
        let connection = builder.serve_connection_with_upgrades(Worded::new(TokioIo::new(tcp)), service).into_owned();
        let mut connection = std::pin::pin!(watcher.watch(connection));
        let ended = tokio::select! {
            ended = &mut connection => ended,
            // The version of HTTP has no time limit of its own, nor has a client that greets and then asks nothing.
            () = tokio::time::sleep(HEADER) => {
                if !asked.load(Ordering::Relaxed) {
                    let (rule, what) = late();
                    return refused(&engine, rule, "", from.ip(), &what);
                }
                connection.await
            }
        };
        if let Err(e) = ended {
            tracing::debug!(error = %e, "a connection ended badly");
            if let Some((rule, what)) = broken(e.downcast_ref(), asked.load(Ordering::Relaxed)) {
                refused(&engine, rule, "", from.ip(), &what);
            }
        }
    });
}

/// What the security log says of a connection that did not speak HTTP well, by rule. `asked`: a whole request had come before.
fn broken(error: Option<&hyper::Error>, asked: bool) -> Option<(&'static str, String)> {
    let error = error?;
    Some(match error {
        e if e.is_parse_too_large() => ("size of a head", format!("a request's head has more than {MAX_HEAD} bytes")),
        e if e.is_parse() => ("no HTTP", format!("this is no HTTP: {e}")),
        // Between two requests a connection may be silent as long as it likes; then it is closed.
        e if e.is_timeout() && !asked => late(),
        e if e.is_incomplete_message() => ("half a request", "the connection ended within a request".to_owned()),
        _ => return None,
    })
}

/// What it says of one on which no request came in time.
fn late() -> (&'static str, String) {
    ("time of a head", format!("a request's head did not arrive within {} seconds", HEADER.as_secs()))
}

type WarpService = warp::filters::BoxedFilter<(warp::reply::Response,)>;

#[derive(Clone)]
struct Router {
    web: Arc<WarpService>,
    mcp: mcp::Mcp,
    engine: Arc<Engine>,
    gate: Arc<Gate>,
    sockets: TaskTracker,
}

struct PerConnection {
    router: Router,
    from: SocketAddr,
    place: Arc<Place>,
    /// A whole request has come.
    asked: Arc<AtomicBool>,
}

impl Service<Request<Incoming>> for PerConnection {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.asked.store(true, Ordering::Relaxed);
        let (router, from, place) = (self.router.clone(), self.from, self.place.clone());
        Box::pin(async move { Ok(router.route(request, from, place).await) })
    }
}

impl Router {
    async fn route(self, request: Request<Incoming>, from: SocketAddr, place: Arc<Place>) -> Response<Body> {
        let (engine, asked) = (self.engine.clone(), (request.method().clone(), request.uri().clone()));
        let peer = peer::of(&engine.config(), from.ip(), request.uri(), request.headers());
        let mut response = self.answer(request, peer, place).await;
        // A browser that is led to any address takes what it gets for what it is called.
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // Those at /mcp are noted there, with the bot's name; and who may read the page may mistype an address there.
        if asked.1.path() != "/mcp" && !ui::door::is_page(asked.1.path()) {
            super::misfit(&engine, "", peer.address, &asked, &response);
        }
        response
    }

    async fn answer(self, mut request: Request<Incoming>, peer: Peer, place: Arc<Place>) -> Response<Body> {
        let config = self.engine.config();
        if let Some((rule, why)) = hosts::check(&config, request.uri(), request.headers()) {
            refused(&self.engine, rule, "", peer.address, &why);
            return error(StatusCode::FORBIDDEN, &why);
        }
        let now = self.engine.now();
        if let Err(over) = self.gate.address(now, caller(peer.address), &config.doors) {
            return over.refuse(&self.engine, "", peer.address);
        }
        if ui::door::is_page(request.uri().path())
            && let Some(refusal) = ui::door::admit(&self.engine, &self.gate.tries, peer, &mut request)
        {
            return refusal;
        }
        if let Err(over) = self.gate.search(now, request.uri().path(), &config.doors) {
            return over.refuse(&self.engine, "", peer.address);
        }
        match request.uri().path() {
            "/mcp" => match auth::agent(&self.engine, peer, "/mcp", request.headers()) {
                None => self.stranger("mcp"),
                Some(pass) => match self.gate.agent(now, &pass.name, &config.doors) {
                    Ok(()) => self.mcp.handle(request, pass, peer.address).await,
                    Err(over) => over.refuse(&self.engine, pass.name.as_str(), peer.address),
                },
            },
            "/bridge/connect" if *request.method() != Method::GET => super::wrong_method("GET"),
            "/bridge/connect" => match auth::agent(&self.engine, peer, "/bridge/connect", request.headers()) {
                None => self.stranger("connect"),
                Some(pass) => websocket::upgrade(request, self.engine, self.gate, (pass, peer.address), &self.sockets, place).await,
            },
            "/metrics" => metrics::answer(&self.engine, &self.gate.tries, peer, request.method(), request.headers()),
            _ => self.ordinary(request, peer).await,
        }
    }

    fn stranger(&self, endpoint: &'static str) -> Response<Body> {
        self.engine.metrics().auth_failures.one(endpoint);
        auth::unauthorized()
    }

    /// Only a form brings anything with it; it is read before its route is looked for.
    async fn ordinary(self, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let (parts, incoming) = request.into_parts();
        let mut form = Bytes::new();
        if parts.method == Method::POST {
            let mut share = self.gate.half_sent_forms.share(caller(peer.address));
            form = match body::read(incoming, MAX_FORM, &mut share, body::OF_ADDRESS).await {
                Ok(form) => form,
                Err(broken) => return broken.refuse(&self.engine, "", peer.address),
            };
        }
        let request = Request::from_parts(parts, Full::new(form));
        let service = TowerToHyperService::new(warp::service((*self.web).clone()));
        match service.call(request).await {
            Ok(response) => response.map(|body| body.map_err(Into::into).boxed_unsync()),
            Err(never) => match never {},
        }
    }
}
