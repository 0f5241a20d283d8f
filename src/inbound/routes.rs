//! The ordinary routes, by warp: health and readiness, and the page's. What is not here is a 404 and what is here with
//! another method a 405, both as JSON.

use std::convert::Infallible;
use std::sync::Arc;

use warp::filters::BoxedFilter;
use warp::http::StatusCode;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

use super::ui;
use crate::engine::Engine;

pub(super) fn routes(engine: Arc<Engine>) -> BoxedFilter<(Response,)> {
    let page = ui::routes(engine.clone());
    let health = warp::path!("health").and(warp::get()).map(|| json(StatusCode::OK, &serde_json::json!({"status": "ok"})));
    let ready = warp::path!("ready").and(warp::get()).map(move || ready(&engine));
    let all = health.or(ready).unify().or(page).unify();
    all.recover(explain).unify().boxed()
}

fn ready(engine: &Engine) -> Response {
    let troubles = engine.troubles();
    match troubles.as_slice() {
        [] => json(StatusCode::OK, &serde_json::json!({"status": "ready"})),
        reasons => json(StatusCode::SERVICE_UNAVAILABLE, &serde_json::json!({"status": "not ready", "reasons": reasons})),
    }
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
