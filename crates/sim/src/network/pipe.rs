//! One direction of a connection: the sent bytes that are not yet read, with their arrival times.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::time::Instant;

/// A unit in flight.
pub(super) enum Parcel {
    Bytes(Bytes),
    End,
}

/// One direction of a connection.
pub(super) struct Pipe {
    /// Parcels with their arrival times; `None` while the path is cut.
    parcels: VecDeque<(Option<Instant>, Parcel)>,
    /// Bytes that the writer may still send.
    room: usize,
    /// Bytes that were read, but not yet acknowledged to the writer.
    unacknowledged: usize,
    /// True if nothing sent from now on arrives.
    silent: bool,
    /// True if the end was sent.
    ended: bool,
    /// True if the end was read.
    over: bool,
    reset: bool,
    reader_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Result of looking for something to read.
pub(super) enum Found {
    /// Something to read, or the end.
    Something,
    /// A parcel that arrives at this time.
    Later(Instant),
    Nothing,
}

impl Pipe {
    pub fn new(room: usize) -> Pipe {
        Pipe {
            parcels: VecDeque::new(),
            room,
            unacknowledged: 0,
            silent: false,
            ended: false,
            over: false,
            reset: false,
            reader_gone: false,
            reader: None,
            writer: None,
        }
    }

    /// Sends as much of `bytes` as there is room for. If there is none, the writer is woken when
    /// there is.
    pub fn send(
        &mut self,
        bytes: &[u8],
        arrives: Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if self.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = bytes.len().min(self.room);
        if taken == 0 && !bytes.is_empty() {
            self.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.room -= taken;
        self.put(Parcel::Bytes(Bytes::copy_from_slice(&bytes[..taken])), arrives);
        Poll::Ready(Ok(taken))
    }

    /// Sends the end; returns whether this was the first time.
    pub fn end(&mut self, arrives: Option<Instant>) -> bool {
        let news = !self.ended && !self.reset;
        if news {
            self.ended = true;
            self.put(Parcel::End, arrives);
        }
        news
    }

    fn put(&mut self, parcel: Parcel, arrives: Option<Instant>) {
        if self.silent {
            return;
        }
        // In order: no parcel overtakes an earlier one.
        let before = self.parcels.back().and_then(|(arrives, _)| *arrives);
        let arrives = arrives.map(|arrives| before.map_or(arrives, |before| before.max(arrives)));
        self.parcels.push_back((arrives, parcel));
        wake(&mut self.reader);
    }

    pub fn fall_silent(&mut self) {
        self.silent = true;
    }

    /// Sets the arrival time of parcels that waited for a cut path.
    pub fn release(&mut self, arrives: Instant) {
        for (waiting, _) in &mut self.parcels {
            waiting.get_or_insert(arrives);
        }
        wake(&mut self.reader);
    }

    /// Resets the connection.
    pub fn reset(&mut self) {
        self.reset = true;
        self.parcels.clear();
        wake(&mut self.reader);
        wake(&mut self.writer);
    }

    pub fn is_reset(&self) -> bool {
        self.reset
    }

    /// Looks for something to read. If nothing has arrived, the reader is woken by the next send.
    pub fn look(&mut self, cx: &mut Context<'_>) -> Found {
        if self.reset || self.over {
            return Found::Something;
        }
        let found = match self.parcels.front() {
            Some((Some(arrives), _)) if *arrives <= Instant::now() => return Found::Something,
            Some((Some(arrives), _)) => Found::Later(*arrives),
            Some((None, _)) | None => Found::Nothing,
        };
        self.reader = Some(cx.waker().clone());
        found
    }

    /// Takes up to `most` bytes of what has arrived; empty at the end. With `acknowledged`, the
    /// writer learns of it.
    pub fn take(&mut self, most: usize, acknowledged: bool) -> io::Result<Bytes> {
        if self.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let Some((_, parcel)) = self.parcels.front_mut() else { return Ok(Bytes::new()) };
        let Parcel::Bytes(bytes) = parcel else {
            self.over = true;
            return Ok(Bytes::new());
        };
        let taken = bytes.split_to(bytes.len().min(most));
        if !bytes.has_remaining() {
            self.parcels.pop_front();
        }
        self.unacknowledged += taken.len();
        if acknowledged {
            self.acknowledge();
        }
        Ok(taken)
    }

    /// Tells the writer how much was read.
    pub fn acknowledge(&mut self) {
        if self.unacknowledged > 0 {
            self.room += std::mem::take(&mut self.unacknowledged);
            wake(&mut self.writer);
        }
    }

    /// Records that the reader is gone. Returns whether bytes were left unread.
    pub fn abandon(&mut self) -> bool {
        self.reader_gone = true;
        self.parcels.iter().any(|(_, parcel)| matches!(parcel, Parcel::Bytes(_)))
    }

    pub fn is_abandoned(&self) -> bool {
        self.reader_gone
    }

    /// Returns whether both ends are done with the pipe.
    pub fn is_over(&self) -> bool {
        self.reader_gone && (self.ended || self.reset)
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
