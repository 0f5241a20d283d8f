//! The durable floor's log: one writer thread, one append and one fdatasync for all that wait.
//!
//! The least that any relay can do which records before it tells. Never reads what it wrote.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// Records that may wait for the writer; whoever brings one more waits for room.
const QUEUE: usize = 4096;

pub(super) struct FloorLog {
    queue: mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)>,
}

impl FloorLog {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = File::create_new(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let (queue, records) = mpsc::channel(QUEUE);
        std::thread::Builder::new().name("floor-log".to_owned()).spawn(move || write(file, records)).map_err(|e| format!("writer thread: {e}"))?;
        Ok(Self { queue })
    }

    /// Returns when the record is on the disk.
    pub(super) async fn append(&self, record: Vec<u8>) -> Result<(), String> {
        let (done, durable) = oneshot::channel();
        let ended = || "the log's writer has ended".to_owned();
        self.queue.send((record, done)).await.map_err(|_| ended())?;
        durable.await.map_err(|_| ended())
    }
}

/// Ends with the last sender, or at the first failed write: then every waiter hears that it ended.
fn write(mut file: File, mut records: mpsc::Receiver<(Vec<u8>, oneshot::Sender<()>)>) {
    let mut batch = Vec::new();
    let mut bytes = Vec::new();
    while records.blocking_recv_many(&mut batch, QUEUE) > 0 {
        bytes.clear();
        batch.iter().for_each(|(record, _)| bytes.extend_from_slice(record));
        if file.write_all(&bytes).and_then(|()| file.sync_data()).is_err() {
            return;
        }
        for (_, done) in batch.drain(..) {
            let _ = done.send(()); // one that no longer waits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[tokio::test]
    async fn what_was_acknowledged_is_in_the_file_in_order_of_arrival() {
        let dir = Scratch::new(&std::env::temp_dir()).unwrap();
        let path = dir.path().join("log");
        let log = FloorLog::open(&path).unwrap();
        for n in 0..5 {
            log.append(format!("{n}\n").into_bytes()).await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "0\n1\n2\n3\n4\n");
        assert!(FloorLog::open(&path).is_err());
    }
}
