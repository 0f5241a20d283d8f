//! Early bytes for slow calls: a client or proxy that hears nothing for long gives up, and rmcp sends no byte before its
//! tool speaks. After a second without an answer the response begins here, as an event stream with comments.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::{Body, BoxError};

/// How long a call may take before the response begins without it.
const PATIENCE: Duration = Duration::from_secs(1);
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The answer itself if it comes soon, else a stream that begins now and carries the answer when it comes. Dropping the
/// stream drops the call, which tells rmcp that the client left.
pub(super) async fn early(answer: impl Future<Output = Response<Body>> + Send + 'static, keep_alive: Duration) -> Response<Body> {
    let mut answer = Box::pin(answer);
    if let Ok(mut response) = tokio::time::timeout(PATIENCE, &mut answer).await {
        if response.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"text/event-stream")) {
            response.headers_mut().insert(NO_BUFFERING, HeaderValue::from_static("no"));
        }
        return response;
    }
    let mut comments = tokio::time::interval_at(Instant::now(), keep_alive);
    comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut response = Response::new(Early { state: State::Waiting(answer), comments }.boxed_unsync());
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

struct Early {
    state: State,
    comments: Interval,
}

enum State {
    Waiting(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
    /// An event stream: passed on as it comes.
    Streaming(Body),
    /// One JSON document: collected, then sent as one event.
    Collecting(Pin<Box<dyn Future<Output = Result<Bytes, BoxError>> + Send>>),
    Done,
}

impl HttpBody for Early {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            match &mut self.state {
                State::Waiting(answer) => match answer.as_mut().poll(cx) {
                    Poll::Ready(response) => self.state = adopt(response),
                    Poll::Pending => {
                        ready!(self.comments.poll_tick(cx));
                        return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))));
                    }
                },
                State::Streaming(body) => return Pin::new(body).poll_frame(cx),
                State::Collecting(document) => {
                    let document = ready!(document.as_mut().poll(cx));
                    self.state = State::Done;
                    return Poll::Ready(Some(document.map(|d| Frame::data(event(&d)))));
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }
}

fn adopt(response: Response<Body>) -> State {
    let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"text/event-stream"));
    let body = response.into_body();
    if is_stream {
        return State::Streaming(body);
    }
    State::Collecting(Box::pin(async move { Ok(body.collect().await?.to_bytes()) }))
}

/// One server-sent event. A document of several lines takes a `data:` line each.
fn event(document: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(document.len() + 16);
    for line in document.split(|b| *b == b'\n') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event.into()
}

/// A response that cannot fail, for callers that want a `Result`.
pub(super) fn sure(response: Response<Body>) -> Result<Response<Body>, Infallible> {
    Ok(response)
}
