//! Words for what hyper refuses by itself with nothing but a status: a head that is too long, and what is no HTTP. A client
//! reads which limit it met, as at every other door, and is read to its end, or the answer would be taken back.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::StatusCode;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use tokio::time::Sleep;

use super::server::MAX_HEAD;
use super::turned::{READ, TIME};

pub(super) struct Worded<T> {
    io: T,
    instead: Option<Instead>,
}

/// What is sent instead of hyper's own, and how far that is. hyper drops the connection after it.
struct Instead {
    answer: Vec<u8>,
    sent: usize,
    shut: bool,
    unread: usize,
    until: Pin<Box<Sleep>>,
}

impl<T> Worded<T> {
    pub(super) fn new(io: T) -> Self {
        Self { io, instead: None }
    }
}

/// A refusal for a peer with which no HTTP is spoken. `lines`: more of its head.
pub(super) fn raw(status: StatusCode, lines: &str, why: &str) -> Vec<u8> {
    let body = serde_json::json!({ "error": why }).to_string();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n{lines}content-length: {}", body.len());
    format!("{head}\r\n\r\n{body}").into()
}

/// The answer with words, if these bytes are one without.
fn words(bytes: &[u8]) -> Option<Vec<u8>> {
    const EMPTY: &[u8] = b"content-length: 0\r\n";
    let head = bytes.strip_prefix(b"HTTP/1.1 4").filter(|rest| rest.len() < 200 && rest.ends_with(b"\r\n\r\n"))?;
    if !head.windows(EMPTY.len()).any(|line| line.eq_ignore_ascii_case(EMPTY)) {
        return None;
    }
    let (status, why) = match head.first_chunk()? {
        b"31 " => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, format!("a request's head has at most {MAX_HEAD} bytes")),
        b"00 " => (StatusCode::BAD_REQUEST, "this is no HTTP request".to_owned()),
        _ => return None,
    };
    Some(raw(status, "", &why))
}

impl<T: Read + Write + Unpin> Worded<T> {
    /// Sends what is to be sent instead of these bytes, if anything is, and waits until the client has read it.
    fn poll_instead(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.instead.is_none() {
            let until = || Box::pin(tokio::time::sleep(TIME));
            self.instead = words(bytes).map(|answer| Instead { answer, sent: 0, shut: false, unread: READ, until: until() });
        }
        let instead = self.instead.as_mut()?;
        Some(instead.poll(Pin::new(&mut self.io), cx).map_ok(|()| bytes.len()))
    }
}

impl Instead {
    fn poll<T: Read + Write>(&mut self, mut io: Pin<&mut T>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        while let Some(rest) = self.answer.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(io.as_mut().poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.sent += n,
            }
        }
        if !self.shut {
            ready!(io.as_mut().poll_shutdown(cx))?;
            self.shut = true;
        }
        let mut bytes = [0; 4096];
        while self.unread > 0 {
            let mut read = ReadBuf::new(&mut bytes);
            ready!(io.as_mut().poll_read(cx, read.unfilled()))?;
            if read.filled().is_empty() {
                break;
            }
            self.unread = self.unread.saturating_sub(read.filled().len());
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Read + Write + Unpin> Write for Worded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(sent) = self.poll_instead(cx, bytes) {
            return sent;
        }
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if let Some(sent) = slices.first().and_then(|first| self.poll_instead(cx, first)) {
            return sent;
        }
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<T: Read + Unpin> Read for Worded<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}
