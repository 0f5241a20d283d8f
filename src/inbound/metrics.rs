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

use super::auth::NoEntry;
use super::peer::Peer;
use super::throttle::Throttle;
use super::{Body, auth, hosts};
use crate::config::TokenHash;
use crate::engine::{Engine, Visitor};
use crate::metrics;

/// Connections to the own listener; one more waits.
const CONNECTIONS: usize = 16;
/// A connection is closed after so long, busy or not: a scrape is one request.
const LIFE: Duration = Duration::from_secs(120);
const HEADER: Duration = Duration::from_secs(75);

/// On the relay's own address: for the owner, and for whoever has the token of [metrics].
pub(super) fn answer(engine: &Engine, tries: &Throttle, peer: Peer, method: &Method, headers: &HeaderMap) -> Response<Body> {
    let by_its_own = |token: &&str| tries.may_try(engine.now(), peer.address).is_ok() && is_its_own(engine, token);
    if auth::bearer(headers).filter(by_its_own).is_some() {
        return text(engine, method);
    }
    match auth::visitor(engine, tries, peer, headers) {
        Ok((Visitor::Owner, _)) => text(engine, method),
        Ok((viewer, _)) => {
            super::refused(engine, "for the owner only", &viewer.to_string(), peer.address, "/metrics is for the owner only");
            shut(engine, NoEntry::Stranger)
        }
        Err(why) => {
            auth::note_stranger(engine, peer, "/metrics", headers);
            shut(engine, why)
        }
    }
}

fn is_its_own(engine: &Engine, token: &str) -> bool {
    engine.config().scrape.token.is_some_and(|wanted| TokenHash::of(token) == wanted)
}

/// On the listener of its own, where nobody is asked for a token unless there is one.
fn answer_alone(engine: &Engine, tries: &Throttle, peer: Peer, request: &Request<Incoming>) -> Response<Body> {
    let (method, headers) = (request.method(), request.headers());
    if let Some((rule, why)) = hosts::check(&engine.config(), request.uri(), headers) {
        super::refused(engine, rule, "", peer.address, &why);
        return super::error(StatusCode::FORBIDDEN, &why);
    }
    if request.uri().path() != "/metrics" {
        return super::error(StatusCode::NOT_FOUND, "only /metrics is at this address");
    }
    if engine.config().scrape.token.is_none() {
        return text(engine, method);
    }
    let looked_at = auth::bearer(headers).map(|token| auth::look(engine, tries, peer, token, |token| is_its_own(engine, token).then_some(())));
    match looked_at.unwrap_or(Err(NoEntry::Stranger)) {
        Ok(()) => text(engine, method),
        Err(why) => {
            auth::note_stranger(engine, peer, "/metrics", headers);
            shut(engine, why)
        }
    }
}

fn shut(engine: &Engine, why: NoEntry) -> Response<Body> {
    engine.metrics().auth_failures.one("metrics");
    match why {
        NoEntry::Stranger => auth::not_for_metrics(),
        NoEntry::Later(seconds) => auth::later(seconds),
    }
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
pub async fn serve(listener: &TcpListener, engine: Arc<Engine>, stop: CancellationToken) {
    let (places, tries) = (Arc::new(Semaphore::new(CONNECTIONS)), Arc::<Throttle>::default());
    while let Ok(place) = places.clone().acquire_owned().await {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((tcp, from)) = accepted else {
            super::rest_from_accepting().await;
            continue;
        };
        let (engine, stop, tries) = (engine.clone(), stop.clone(), tries.clone());
        let peer = Peer { address: from.ip().to_canonical(), https: false };
        tokio::spawn(async move {
            let served = tokio::time::timeout(LIFE, connection(tcp, engine, tries, peer));
            let _ = stop.run_until_cancelled(served).await;
            drop(place);
        });
    }
}

async fn connection(tcp: TcpStream, engine: Arc<Engine>, tries: Arc<Throttle>, peer: Peer) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer_alone(&engine, &tries, peer, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let served =
        hyper::server::conn::http1::Builder::new().timer(TokioTimer::new()).header_read_timeout(HEADER).serve_connection(TokioIo::new(tcp), service);
    if let Err(e) = served.await {
        tracing::debug!(error = %e, "a connection for metrics ended badly");
    }
}
