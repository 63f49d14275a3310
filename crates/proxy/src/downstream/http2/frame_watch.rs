//! Detects clients that flood the proxy with frames without effect: SETTINGS, PING, PRIORITY,
//! WINDOW_UPDATE, RST_STREAM, frames of unknown types, and empty DATA frames. Each costs work, and
//! the limits on streams and bytes do not bound them (RFC 9113, 10.5).
//!
//! Each of these frames takes one of [`FRAMES_MAX`] permits. Permits come back with time and with
//! bytes sent to the client, because a client that reads a large response opens its window again
//! and again. A frame that begins a request or carries its body restores all of them.

use std::time::{Duration, Instant};

/// Length of the client's connection preface (RFC 9113, 3.4).
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// Length of a frame header (RFC 9113, 4.1): payload length, type, flags, stream.
const HEAD: usize = 9;

/// Frame types (RFC 9113, 6) and flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;

/// Maximum number of frames without effect in a row.
const FRAMES_MAX: u64 = 1000;
/// Time after which one permit comes back.
const TIME_PER_PERMIT: Duration = Duration::from_millis(5);
/// Bytes sent to the client for which one permit comes back, not counting replies to frames without
/// effect. A client may answer each short message of a stream with a PING and a WINDOW_UPDATE.
const SENT_PER_PERMIT: u64 = 8;

pub(super) struct FrameWatch {
    head: [u8; HEAD],
    /// Bytes of the frame header received so far.
    length: usize,
    /// Bytes to skip before the next frame header.
    skip: usize,
    permits: u64,
    /// Time, and count of sent bytes, up to which permits were restored.
    renewed: (Instant, u64),
}

impl FrameWatch {
    /// Starts to watch a connection at its preface.
    pub fn new(now: Instant) -> FrameWatch {
        let (head, renewed) = ([0; HEAD], (now, 0));
        FrameWatch { head, length: 0, skip: PREFACE, permits: FRAMES_MAX, renewed }
    }

    /// Takes bytes from the client. `sent` is the number of bytes sent to it so far. Returns
    /// whether the client may send more.
    pub fn take(&mut self, mut bytes: &[u8], now: Instant, sent: u64) -> bool {
        self.renew(now, sent);
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let (piece, rest) = bytes.split_at(bytes.len().min(HEAD - self.length));
            self.head[self.length..][..piece.len()].copy_from_slice(piece);
            self.length += piece.len();
            if self.skip > 0 || self.length < HEAD {
                return true;
            }
            bytes = rest;
            self.length = 0;
            if !self.begin_frame() {
                return false;
            }
        }
    }

    /// Takes a frame header. Returns whether the client may send the frame.
    fn begin_frame(&mut self) -> bool {
        let [long, middle, short, kind, flags, ..] = self.head;
        self.skip = u32::from_be_bytes([0, long, middle, short]) as usize;
        let is_of_request = match kind {
            DATA => self.skip > 0 || flags & END_STREAM != 0,
            HEADERS | CONTINUATION => true,
            _ => false,
        };
        // The reply to such a frame restores no permits.
        self.renewed.1 += match kind {
            PING if flags & ACK == 0 => (HEAD + 8) as u64,
            SETTINGS if flags & ACK == 0 => HEAD as u64,
            _ => 0,
        };
        let left = self.permits.checked_sub(1);
        self.permits = if is_of_request { FRAMES_MAX } else { left.unwrap_or(0) };
        is_of_request || left.is_some()
    }

    fn renew(&mut self, now: Instant, sent: u64) {
        let (at, sent_before) = self.renewed;
        let millis = now.saturating_duration_since(at).as_millis();
        let by_time = u64::try_from(millis / TIME_PER_PERMIT.as_millis()).unwrap_or(u64::MAX);
        let by_bytes = sent.saturating_sub(sent_before) / SENT_PER_PERMIT;
        self.permits = self.permits.saturating_add(by_time).saturating_add(by_bytes);
        self.permits = self.permits.min(FRAMES_MAX);
        // Carry the remainders over to the next call.
        let time = TIME_PER_PERMIT.saturating_mul(u32::try_from(by_time).unwrap_or(u32::MAX));
        self.renewed = (at + time, sent_before + by_bytes * SENT_PER_PERMIT);
    }
}

#[cfg(test)]
mod tests {
    use net::clock::TokioClock;

    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let head = [0, 0, length, kind, flags, 0, 0, 0, 1];
        [&head[..], &vec![kind; usize::from(length)]].concat()
    }

    /// Returns how many of 3,000 such frames in a row are accepted when delivered in pieces of
    /// `piece` bytes.
    fn taken(frame: &[u8], piece: usize) -> u64 {
        let now = TokioClock::system().instant();
        let mut watch = FrameWatch::new(now);
        assert!(watch.take(&[0; PREFACE], now, 0));
        let is_taken = |_: &u64| frame.chunks(piece).all(|bytes| watch.take(bytes, now, 0));
        (0..3000).take_while(is_taken).count() as u64
    }

    #[test]
    fn frames_without_effect_are_bounded_however_they_are_split() {
        for piece in [1, 5, 9, 100] {
            // SETTINGS, PING, PRIORITY, WINDOW_UPDATE, RST_STREAM, an unknown type, empty DATA.
            for (kind, length) in [(4, 6), (6, 8), (2, 5), (8, 4), (3, 4), (77, 1), (DATA, 0)] {
                assert_eq!(taken(&frame(kind, 0, length), piece), FRAMES_MAX, "{kind} {piece}");
            }
            for (kind, flags, length) in [(HEADERS, 0, 3), (DATA, 0, 1), (DATA, END_STREAM, 0)] {
                assert_eq!(taken(&frame(kind, flags, length), piece), 3000, "{kind} {piece}");
            }
        }
    }

    #[test]
    fn a_client_may_acknowledge_each_short_message() {
        let begin = TokioClock::system().instant();
        let mut watch = FrameWatch::new(begin);
        assert!(watch.take(&[0; PREFACE], begin, 0));
        let answers = [frame(8, 0, 4), frame(PING, 0, 8)].concat();
        // Messages of 7 bytes without a pause; the client also answers each PING.
        let is_taken = |number: &u64| watch.take(&answers, begin, number * (16 + 17));
        assert_eq!((1..=5000).take_while(is_taken).count(), 5000);
        // Replies to pings restore no permits, however slowly they come.
        let mut watch = FrameWatch::new(begin);
        assert!(watch.take(&[0; PREFACE], begin, 0));
        let ping = frame(PING, 0, 8);
        let is_taken = |number: &u64| {
            let now = begin + Duration::from_millis(*number);
            watch.take(&ping, now, number * 17)
        };
        assert_eq!((1..=5000).take_while(is_taken).count(), 1250);
    }

    #[test]
    fn permits_come_back_with_time_and_with_sent_bytes() {
        let now = TokioClock::system().instant();
        let mut watch = FrameWatch::new(now);
        let update = frame(8, 0, 4);
        let start = [vec![0; PREFACE], update.repeat(1000)].concat();
        assert!(watch.take(&start, now, 0) && !watch.take(&update, now, SENT_PER_PERMIT - 1));
        let mut watch = FrameWatch::new(now);
        assert!(watch.take(&start, now, 0));
        let later = now + TIME_PER_PERMIT * 3;
        assert!(watch.take(&update.repeat(3), later, 0) && !watch.take(&update, later, 0));
        let mut watch = FrameWatch::new(now);
        assert!(watch.take(&start, now, 0));
        assert!(watch.take(&update.repeat(10), now, 10 * SENT_PER_PERMIT));
        assert!(!watch.take(&update, now, 10 * SENT_PER_PERMIT));
    }
}
