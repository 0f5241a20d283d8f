//! Prometheus' door: `GET /metrics` on the relay's own address with the owner's token or one for it alone, or on a listener of
//! its own. Agents' names are labels, so nobody else reads it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::peer::Peer;
use super::{Body, auth};
use crate::config::TokenHash;
use crate::engine::{Engine, Visitor};
use crate::metrics;

/// Connections to the own listener; one more waits.
const CONNECTIONS: usize = 16;
/// A connection is closed after so long, busy or not: a scrape is one request.
const LIFE: Duration = Duration::from_secs(120);
const HEADER: Duration = Duration::from_secs(75);

/// On the relay's own address: for the owner, and for whoever has the token of [metrics].
pub(super) fn answer(engine: &Engine, peer: Peer, method: &Method, headers: &HeaderMap) -> Response<Body> {
    let owner = || matches!(auth::visitor(engine, peer, headers), Some(Visitor::Owner));
    if has_token(engine, headers) == Some(true) || owner() { text(engine, method) } else { shut(engine) }
}

/// `None` where none is asked for.
fn has_token(engine: &Engine, headers: &HeaderMap) -> Option<bool> {
    let wanted = engine.config().scrape.token?;
    Some(auth::bearer(headers).is_some_and(|given| TokenHash::of(given) == wanted))
}

fn shut(engine: &Engine) -> Response<Body> {
    engine.metrics().auth_failures.one("metrics");
    auth::not_for_metrics()
}

fn text(engine: &Engine, method: &Method) -> Response<Body> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return super::wrong_method("GET");
    }
    let mut response = Response::new(super::full(engine.metrics_text()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
    response
}

/// On a listener of its own, until `stop`.
pub async fn serve(listener: TcpListener, engine: Arc<Engine>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = places.clone().acquire_owned().await {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((tcp, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let (engine, stop) = (engine.clone(), stop.clone());
        tokio::spawn(async move {
            let served = tokio::time::timeout(LIFE, connection(tcp, engine));
            let _ = stop.run_until_cancelled(served).await;
            drop(place);
        });
    }
}

async fn connection(tcp: TcpStream, engine: Arc<Engine>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = match request.uri().path() {
            "/metrics" if has_token(&engine, request.headers()) == Some(false) => shut(&engine),
            "/metrics" => text(&engine, request.method()),
            _ => super::error(StatusCode::NOT_FOUND, "only /metrics is at this address"),
        };
        async move { Ok::<_, Infallible>(response) }
    });
    let served =
        hyper::server::conn::http1::Builder::new().timer(TokioTimer::new()).header_read_timeout(HEADER).serve_connection(TokioIo::new(tcp), service);
    if let Err(e) = served.await {
        tracing::debug!(error = %e, "a connection for metrics ended badly");
    }
}
