//! Early bytes for slow calls: a client or proxy that hears nothing for long gives up, and rmcp sends no byte before its
//! tool speaks. After a second without an answer the response begins here, as an event stream with comments. An ask's
//! stream begins with an event whose id brings the client back to it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body as HttpBody, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::super::{Body, BoxError};

/// How long a call may take before the response begins without it.
const PATIENCE: Duration = Duration::from_secs(1);
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The first event of a stream that can be taken up again.
pub(super) struct Prime {
    pub id: String,
    pub retry_ms: u64,
}

impl Prime {
    fn event(&self) -> Bytes {
        format!("id: {}\nretry: {}\ndata:\n\n", self.id, self.retry_ms).into()
    }
}

/// One document, there already, as the whole stream.
pub(super) fn full(document: Bytes) -> Response<Body> {
    as_stream(super::super::full(event(&document)))
}

/// The document if it comes soon, else a stream that begins now and carries it when it comes; `None` ends it without one.
pub(super) async fn answer(document: impl Future<Output = Option<Bytes>> + Send + 'static, keep_alive: Duration) -> Response<Body> {
    let mut document = Box::pin(document);
    match tokio::time::timeout(PATIENCE, &mut document).await {
        Ok(document) => full(document.unwrap_or_default()),
        Err(_) => waiting(None, document, keep_alive),
    }
}

/// A stream that begins now, with an event to come back to.
pub(super) fn primed(prime: Prime, document: impl Future<Output = Option<Bytes>> + Send + 'static, keep_alive: Duration) -> Response<Body> {
    waiting(Some(prime), Box::pin(document), keep_alive)
}

/// A stream that begins now; the event to come back to, and what the document waits for, come later.
pub(super) fn primed_later<D>(later: impl Future<Output = (Prime, D)> + Send + 'static, keep_alive: Duration) -> Response<Body>
where
    D: Future<Output = Option<Bytes>> + Send + 'static,
{
    let priming = async move {
        let (prime, document) = later.await;
        (prime.event(), collected(Box::pin(document)))
    };
    as_stream(Early::new(State::Priming(Box::pin(priming)), Some(Bytes::from_static(b":\n\n")), keep_alive).boxed_unsync())
}

fn waiting(prime: Option<Prime>, document: Document, keep_alive: Duration) -> Response<Body> {
    let first = prime.map_or(Bytes::from_static(b":\n\n"), |prime| prime.event());
    as_stream(Early::new(State::Collecting(collected(document)), Some(first), keep_alive).boxed_unsync())
}

type Document = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;
type Last = Pin<Box<dyn Future<Output = Result<Bytes, BoxError>> + Send>>;

fn collected(document: Document) -> Last {
    Box::pin(async move { Ok(document.await.map_or_else(Bytes::new, |d| event(&d))) })
}

/// rmcp's answer if it comes soon, else a stream that begins now and carries it when it comes. Dropping the stream drops
/// the call, which tells rmcp that the client left.
pub(super) async fn early(answer: impl Future<Output = Response<Body>> + Send + 'static, keep_alive: Duration) -> Response<Body> {
    let mut answer = Box::pin(answer);
    if let Ok(mut response) = tokio::time::timeout(PATIENCE, &mut answer).await {
        if is_stream(&response) {
            response.headers_mut().insert(NO_BUFFERING, HeaderValue::from_static("no"));
        }
        return response;
    }
    as_stream(Early::new(State::Waiting(answer), Some(Bytes::from_static(b":\n\n")), keep_alive).boxed_unsync())
}

fn as_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

fn is_stream(response: &Response<Body>) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"text/event-stream"))
}

/// A body that speaks before its answer is there, and while it is not.
struct Early {
    state: State,
    /// Sent before anything else.
    first: Option<Bytes>,
    comments: Interval,
}

enum State {
    Waiting(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
    /// An event stream: passed on as it comes.
    Streaming(Body),
    /// An event first, then what comes after it.
    Priming(Pin<Box<dyn Future<Output = (Bytes, Last)> + Send>>),
    /// The last bytes, whenever they come.
    Collecting(Last),
    Done,
}

impl Early {
    fn new(state: State, first: Option<Bytes>, keep_alive: Duration) -> Self {
        let mut comments = tokio::time::interval_at(Instant::now() + keep_alive, keep_alive);
        comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { state, first, comments }
    }
}

impl HttpBody for Early {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        loop {
            match &mut self.state {
                State::Waiting(answer) => {
                    if let Poll::Ready(response) = answer.as_mut().poll(cx) {
                        self.state = adopt(response);
                        continue;
                    }
                }
                State::Priming(priming) => {
                    if let Poll::Ready((prime, last)) = priming.as_mut().poll(cx) {
                        self.state = State::Collecting(last);
                        return Poll::Ready(Some(Ok(Frame::data(prime))));
                    }
                }
                State::Collecting(last) => {
                    if let Poll::Ready(last) = last.as_mut().poll(cx) {
                        self.state = State::Done;
                        return Poll::Ready(last.map(|bytes| (!bytes.is_empty()).then(|| Frame::data(bytes))).transpose());
                    }
                }
                State::Streaming(body) => return Pin::new(body).poll_frame(cx),
                State::Done => return Poll::Ready(None),
            }
            ready!(self.comments.poll_tick(cx));
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))));
        }
    }
}

/// rmcp's answer, late: a stream goes on as it is, a document becomes one event.
fn adopt(response: Response<Body>) -> State {
    let stream = is_stream(&response);
    let body = response.into_body();
    if stream {
        return State::Streaming(body);
    }
    State::Collecting(Box::pin(async move { Ok(event(&body.collect().await?.to_bytes())) }))
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
