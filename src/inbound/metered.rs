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
