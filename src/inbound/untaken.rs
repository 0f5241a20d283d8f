//! Results on their way to their caller: so many bytes of one bot, however many calls it has under way and however little it
//! reads. What is more stays on record and is fetched later.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::gate::{Share, TooMuch};
use super::{Body, BoxError};
use crate::core::ids::AgentName;

/// As much as a bot may leave half sent: 128 of the largest answers.
const MAX_UNTAKEN: usize = 32 << 20;
const LIMIT: &str = "bytes of results that one agent has not taken";
/// A result up to this size is not counted.
const SMALL: usize = 4 * 1024;

/// Room for the result of one call, and the call's place among those under way; given back when the last that holds it is gone.
pub(super) struct Untaken {
    bytes: Mutex<Share<AgentName>>,
    _call: Option<Share<AgentName>>,
}

impl Untaken {
    pub(super) fn new(bytes: Share<AgentName>, call: Option<Share<AgentName>>) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(bytes), _call: call })
    }

    pub(super) fn hold(&self, bytes: usize) -> Result<(), TooMuch> {
        if bytes <= SMALL { Ok(()) } else { self.share().hold(bytes, MAX_UNTAKEN, LIMIT) }
    }

    /// The body, whose bytes hold this until they are sent. What of it is not there when `revoked` resolves never comes.
    pub(super) fn held_by(self: Arc<Self>, body: Body, revoked: impl Future<Output = ()> + Send + 'static) -> Body {
        // What is there whole is told already.
        let revoked = body.size_hint().exact().is_none().then(|| Box::pin(revoked) as Pin<Box<dyn Future<Output = ()> + Send>>);
        Holding { body, room: self, revoked }.boxed_unsync()
    }

    fn share(&self) -> MutexGuard<'_, Share<AgentName>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Holding {
    body: Body,
    room: Arc<Untaken>,
    /// `None` for what is whole.
    revoked: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl HttpBody for Holding {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.revoked.as_mut().is_some_and(|revoked| revoked.as_mut().poll(cx).is_ready()) {
            self.revoked = None;
            // What it waited for is dropped with it.
            self.body = super::full("");
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let held = |bytes| Bytes::from_owner(Held { bytes, _room: self.room.clone() });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(held))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection keeps what it could not send yet when the body is long gone.
struct Held {
    bytes: Bytes,
    _room: Arc<Untaken>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::Shares;
    use super::*;

    #[tokio::test]
    async fn room_is_taken_until_the_last_byte_is_gone() {
        let shares = Arc::<Shares<AgentName>>::default();
        let room = || Untaken::new(shares.share(AgentName::parse("a").unwrap()), None);
        let (one, two) = (room(), room());
        one.hold(MAX_UNTAKEN - 10_000).unwrap();
        let over = two.hold(10_001).unwrap_err();
        assert_eq!((over.limit, over.max), (LIMIT, MAX_UNTAKEN));
        assert!(two.hold(SMALL).is_ok(), "what is small is never too much");
        let mut body = one.held_by(super::super::full("an answer"), std::future::pending());
        assert_eq!(body.size_hint().exact(), Some(9), "its length is known as before");
        let sent = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!(&sent[..], b"an answer");
        assert!(two.hold(10_001).is_err(), "the connection has the bytes still");
        drop(sent);
        assert!(two.hold(MAX_UNTAKEN).is_ok());
        drop(two);
        assert_eq!(shares.holders(), 0);
    }
}
