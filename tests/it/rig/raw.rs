//! WebSocket by hand: an upgraded connection without a library on our side, for peers that break the protocol or do nothing.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Relay, soon};

/// An upgraded connection without a WebSocket library on our side.
pub async fn upgraded(relay: &Relay, agent: &str) -> TcpStream {
    upgraded_at(&relay.host(), agent).await
}

/// The same at an address.
pub async fn upgraded_at(host: &str, agent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "GET /bridge/connect HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer tok-{agent}-0123456789\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        host
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(soon("the upgrade", stream.read_u8()).await.unwrap());
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 101") && answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
    stream
}

/// The code of the close frame that the relay sends, `None` if it just closes.
pub async fn close_code(stream: &mut TcpStream) -> Option<u16> {
    loop {
        let head = soon("the relay closes", stream.read_u16()).await.ok()?;
        let length = match head & 0x7f {
            126 => u64::from(stream.read_u16().await.ok()?),
            127 => stream.read_u64().await.ok()?,
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).await.ok()?;
        if head >> 8 == 0x88 {
            return payload.first_chunk().map(|code| u16::from_be_bytes(*code));
        }
    }
}

/// A frame of a client with the mask 0, so that its payload is as written.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = match payload.len() {
        short @ ..126 => vec![0x80 | short as u8],
        long => [&[0x80 | 126][..], &u16::try_from(long).unwrap().to_be_bytes()].concat(),
    };
    [&[first][..], &length, &[0; 4], payload].concat()
}
