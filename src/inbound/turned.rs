//! Turning away a connection for which there is no place. It hears which limit, after its request: clients take an answer
//! that comes before one, or a connection that is closed on unread bytes, for a network that broke.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::alive;

/// So many at once are waited for; the next hear at once what they can, for a flood gets no tasks.
const HEARD: usize = 64;
/// For the request to begin, and for the client to close.
pub(super) const TIME: Duration = Duration::from_secs(1);
/// Of a request so much is read, and thrown away.
pub(super) const READ: usize = 64 * 1024;

pub(super) struct Turned(Arc<Semaphore>);

impl Default for Turned {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(HEARD)))
    }
}

impl Turned {
    pub(super) fn away(&self, tcp: TcpStream, answer: Vec<u8>) {
        match self.0.clone().try_acquire_owned() {
            Ok(place) => {
                tokio::spawn(async move {
                    let _ = tell(tcp, &answer).await;
                    drop(place);
                });
            }
            Err(_) => drop(tcp.try_write(&answer)),
        }
    }
}

async fn tell(mut tcp: TcpStream, answer: &[u8]) -> io::Result<()> {
    alive::speaks(&tcp, TIME).await;
    timeout(TIME, tcp.write_all(answer)).await??;
    tcp.shutdown().await?;
    let mut rest = tcp.take(READ as u64);
    timeout(TIME, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await??;
    Ok(())
}
