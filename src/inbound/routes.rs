//! The ordinary routes, by warp: health and readiness, the adapter's installer, and the page's. What is not here is a 404 and what is here with
//! another method a 405, both as JSON.

use std::convert::Infallible;
use std::sync::Arc;

use warp::filters::BoxedFilter;
use warp::http::StatusCode;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

use super::gate::Gate;
use super::ui;
use crate::engine::Engine;
use crate::wire::install;

pub(super) fn routes(engine: Arc<Engine>, gate: Arc<Gate>) -> BoxedFilter<(Response,)> {
    let page = ui::routes(engine.clone(), gate);
    let health = warp::path!("health").and(warp::get()).map(|| json(StatusCode::OK, &serde_json::json!({"status": "ok"})));
    let for_ready = engine.clone();
    let ready = warp::path!("ready").and(warp::get()).map(move || ready(&for_ready));
    let header = |name| warp::header::optional::<String>(name);
    let install = warp::path!("install.py").and(warp::get()).and(header("host")).and(header("x-forwarded-proto"));
    let install = install.map(move |host, proto| installer(&engine, host, proto));
    let all = health.or(ready).unify().or(install).unify().or(page).unify();
    all.recover(explain).unify().boxed()
}

fn ready(engine: &Engine) -> Response {
    let troubles = engine.troubles();
    match troubles.as_slice() {
        [] => json(StatusCode::OK, &serde_json::json!({"status": "ready"})),
        reasons => json(StatusCode::SERVICE_UNAVAILABLE, &serde_json::json!({"status": "not ready", "reasons": reasons})),
    }
}

/// The installer, knowing the address that it was fetched from. No secret is in it.
fn installer(engine: &Engine, host: Option<String>, proto: Option<String>) -> Response {
    let scheme = if proto.as_deref() == Some("https") { "https" } else { "http" };
    let fetched_from = || host.map(|host| format!("{scheme}://{host}")).unwrap_or_default();
    let relay = engine.config().public_url.clone().unwrap_or_else(fetched_from);
    warp::reply::with_header(install::script(&relay), "content-type", "text/x-python; charset=utf-8").into_response()
}

async fn explain(rejection: Rejection) -> Result<Response, Infallible> {
    let (status, message) = if rejection.is_not_found() {
        (StatusCode::NOT_FOUND, "there is nothing at this address")
    } else if rejection.find::<warp::reject::MethodNotAllowed>().is_some() {
        (StatusCode::METHOD_NOT_ALLOWED, "this address does not take this method")
    } else {
        (StatusCode::BAD_REQUEST, "this request cannot be read")
    };
    Ok(json(status, &serde_json::json!({ "error": message })))
}

fn json(status: StatusCode, value: &impl serde::Serialize) -> Response {
    warp::reply::with_status(warp::reply::json(value), status).into_response()
}
