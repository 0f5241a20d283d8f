//! A bot's stream that counts what has come of a message that is not whole yet, so that all sockets of one bot together
//! hold no more than the bound, however many frames it leaves half sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::body::{MAX_HALF_SENT, OF_AGENT};
use super::gate::{Share, TooMuch};
use crate::core::ids::AgentName;

/// A message up to this size is not counted: most are smaller, and all sockets of a bot are few.
const SMALL: usize = 16 * 1024;
/// What a control frame of a client has beside its payload.
const CONTROL_HEAD: usize = 6;

pub(super) struct Metered<S> {
    io: S,
    share: Share<AgentName>,
    /// Since the last whole message.
    heard: usize,
    /// Nothing is read any more: the bot has too much half sent.
    pub over: Option<TooMuch>,
}

impl<S> Metered<S> {
    pub(super) fn new(io: S, share: Share<AgentName>) -> Self {
        Self { io, share, heard: 0, over: None }
    }

    /// A message is whole. What may have been read of the next one is less than a read buffer.
    pub(super) fn whole(&mut self) {
        self.set(0);
    }

    /// A control frame is whole; it may stand between the parts of a message, which stay counted.
    pub(super) fn control(&mut self, payload: usize) {
        self.set(self.heard.saturating_sub(payload + CONTROL_HEAD));
    }

    fn set(&mut self, heard: usize) {
        let counted = |bytes: usize| bytes.saturating_sub(SMALL);
        if counted(heard) != counted(self.heard) {
            self.over = self.share.hold(counted(heard), MAX_HALF_SENT, OF_AGENT).err();
        }
        self.heard = heard;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.over.is_some() {
            return Poll::Ready(Err(io::Error::other("too much half sent")));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        this.set(this.heard + buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncReadExt;

    use super::super::gate::Shares;
    use super::*;

    #[tokio::test]
    async fn parts_of_a_message_stay_counted_whatever_stands_between_them() {
        let shares = Arc::<Shares<AgentName>>::default();
        let name = AgentName::parse("a").unwrap();
        let mut other = shares.share(name.clone());
        let mut stream = Metered::new(tokio::io::repeat(0), shares.share(name));
        let mut part = vec![0; 1_000_000];
        for _ in 0..30 {
            stream.read_exact(&mut part).await.unwrap();
            let mut ping = [0; CONTROL_HEAD + 100];
            stream.read_exact(&mut ping).await.unwrap();
            stream.control(100);
        }
        let counted = 30_000_000 - SMALL;
        assert!(other.hold(MAX_HALF_SENT - counted + 1, MAX_HALF_SENT, OF_AGENT).is_err());
        assert!(other.hold(MAX_HALF_SENT - counted, MAX_HALF_SENT, OF_AGENT).is_ok());
        stream.read_exact(&mut part[..1]).await.unwrap();
        assert!(stream.over.is_some() && stream.read_exact(&mut part).await.is_err(), "one byte more is too many");
    }

    #[tokio::test]
    async fn whole_messages_are_forgotten_and_small_ones_never_counted() {
        let shares = Arc::<Shares<AgentName>>::default();
        let mut stream = Metered::new(tokio::io::repeat(0), shares.share(AgentName::parse("a").unwrap()));
        for size in [10, SMALL, 4_000_000].repeat(50) {
            stream.read_exact(&mut vec![0; size]).await.unwrap();
            assert_eq!(shares.holders(), usize::from(size > SMALL));
            stream.whole();
            assert_eq!(shares.holders(), 0);
        }
    }
}
