//! Connections whose other end is gone without a word: the system asks silent ones for a sign of life, and gives up those
//! that take nothing of what is sent. Without it a caller whose network vanished would keep its place for ever.

use std::time::Duration;

use tokio::net::TcpStream;

/// A comment on an idle stream of the page this often, so that a lost connection is noticed; costs a few bytes.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(25);
/// Silence until the system asks, then how often and how many times in vain.
const IDLE: Duration = Duration::from_secs(20);
const BETWEEN: Duration = Duration::from_secs(10);
const TIMES: u32 = 3;
/// What is sent may wait so long to be taken: an answer, or the comments on the stream of who waits.
#[cfg(any(target_os = "linux", test))]
const UNTAKEN: Duration = Duration::from_secs(30);

pub(super) fn watch(tcp: &TcpStream) {
    let _ = tcp.set_nodelay(true);
    // A system that refuses one of these serves the connection as well as it did before.
    #[cfg(unix)]
    {
        use rustix::net::sockopt;
        let _ = sockopt::set_socket_keepalive(tcp, true);
        let _ = sockopt::set_tcp_keepidle(tcp, IDLE);
        let _ = sockopt::set_tcp_keepintvl(tcp, BETWEEN);
        let _ = sockopt::set_tcp_keepcnt(tcp, TIMES);
        #[cfg(target_os = "linux")]
        let _ = sockopt::set_tcp_user_timeout(tcp, UNTAKEN.as_millis() as u32);
    }
}

/// Whether the other end says something in time. (Not `TcpStream::readable`: that is ready at once on some new connections
/// on which nothing has come.)
pub(super) async fn speaks(tcp: &TcpStream, within: Duration) -> bool {
    let mut first = [0];
    matches!(tokio::time::timeout(within, tcp.peek(&mut first)).await, Ok(Ok(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_whose_network_is_gone_is_noticed_within_a_minute() {
        assert!(IDLE + BETWEEN * TIMES < Duration::from_secs(60));
        let flags = crate::config::Flags { config: Some("/dev/null".into()), ..Default::default() };
        let call = crate::config::load(&flags, &|_| None).unwrap().keep_alive;
        // It may go right after it has taken a comment, and the next is the first that waits.
        for every in [call, KEEP_ALIVE] {
            assert!(every + UNTAKEN < Duration::from_secs(60), "{every:?}");
        }
    }
}
