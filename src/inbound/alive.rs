//! Connections whose other end is gone without a word: the system asks silent ones for a sign of life, and gives up those
//! that take nothing of what is sent. Without it a caller whose network vanished would keep its place for ever.

use std::time::Duration;

use tokio::net::TcpStream;

/// Silence until the system asks, then how often and how many times in vain: gone within two minutes.
const IDLE: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_secs(15);
const TIMES: u32 = 4;
/// What is sent may wait so long to be taken: a person may pause a download.
#[cfg(target_os = "linux")]
const UNTAKEN: Duration = Duration::from_secs(300);

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
