//! Reads `text/event-stream` as it arrives and yields the data of each event that has any.
//!
//! Never touches a socket and never looks into the data: comments, ids, `retry` and events with empty
//! data (the one that opens an ask's stream) are passed over.

/// The bytes of one stream that are not yet an event.
#[derive(Default)]
pub(super) struct SseReader {
    buffer: Vec<u8>,
    read: usize,
    data: Vec<u8>,
}

impl SseReader {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Forgets the stream, keeps the memory.
    pub(super) fn reset(&mut self) {
        self.buffer.clear();
        self.data.clear();
        self.read = 0;
    }

    /// The data of the next complete event that carries some; `None` until more bytes come.
    pub(super) fn next_event(&mut self) -> Option<Vec<u8>> {
        while let Some(length) = self.buffer[self.read..].iter().position(|b| *b == b'\n') {
            let line = &self.buffer[self.read..self.read + length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.read += length + 1;
            if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            } else if line.is_empty() && !self.data.is_empty() {
                return Some(std::mem::take(&mut self.data));
            }
        }
        self.buffer.drain(..self.read);
        self.read = 0;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&str]) -> Vec<String> {
        let mut reader = SseReader::default();
        let mut found = Vec::new();
        for chunk in chunks {
            reader.push(chunk.as_bytes());
            while let Some(event) = reader.next_event() {
                found.push(String::from_utf8_lossy(&event).into_owned());
            }
        }
        found
    }

    #[test]
    fn the_opening_event_and_comments_are_passed_over() {
        let stream = "id: 7\nretry: 3000\ndata:\n\n:\n\n: still here\n\nevent: message\ndata: {\"id\":1}\n\n";
        assert_eq!(events(&[stream]), ["{\"id\":1}"]);
    }

    #[test]
    fn an_event_in_any_pieces_is_the_same_event() {
        let stream = "id: 1\r\ndata: {\"a\":\r\ndata: 2}\r\n\r\ndata:x\n\n";
        for cut in 0..stream.len() {
            let (head, tail) = stream.split_at(cut);
            assert_eq!(events(&[head, tail]), ["{\"a\":\n2}", "x"], "cut at {cut}");
        }
        let bytes: Vec<String> = stream.chars().map(String::from).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        assert_eq!(events(&bytes), ["{\"a\":\n2}", "x"]);
    }

    #[test]
    fn an_unfinished_event_is_not_an_event() {
        assert!(events(&["data: {\"id\":1}\n"]).is_empty());
    }

    #[test]
    fn after_a_reset_nothing_of_the_old_stream_is_left() {
        let mut reader = SseReader::default();
        reader.push(b"data: old\n");
        assert_eq!(reader.next_event(), None);
        reader.reset();
        reader.push(b"\ndata: new\n\n");
        assert_eq!(reader.next_event().as_deref(), Some(b"new".as_slice()));
    }
}
