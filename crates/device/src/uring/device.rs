//! The device of one worker on its [`Ring`]: a file or block device, accessed through io_uring.
//!
//! Guarantees: an operation that has a place on the ring runs to its end, whether or not its future
//! is dropped; one that still waits for a place is dropped with its future.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::file::cache_file::CacheFile;
use crate::transfer::payload::Payload;
use crate::uring::in_flight::InFlight;
use crate::uring::ring::{Ring, Shared};
use crate::{Device, Extent, FrozenBuf, Geometry, IoBuf};

/// A file served by a ring: the device of one worker.
#[derive(Clone)]
pub struct UringDevice {
    ring: Ring,
    file: Arc<CacheFile>,
}

impl UringDevice {
    pub(crate) fn new(ring: Ring, file: Arc<CacheFile>) -> UringDevice {
        UringDevice { ring, file }
    }

    pub(crate) fn file(&self) -> &CacheFile {
        &self.file
    }

    async fn perform(&self, offset: u64, payload: Payload) -> (Payload, io::Result<()>) {
        self.file.counters().begin(payload.operation());
        let extent = Extent { offset, len: payload.len() as u64 };
        if let Err(error) = self.file.geometry().check(extent) {
            self.file.counters().refuse();
            return (payload, Err(error));
        }
        let start = InFlight::new(self.file.clone(), offset, payload);
        let stage = Stage::Waiting { start: Some(start), ticket: None };
        let mut future = RingFuture { shared: self.ring.shared(), stage };
        poll_fn(|context| future.poll(context)).await
    }
}

impl Device for UringDevice {
    fn geometry(&self) -> Geometry {
        self.file.geometry()
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        match self.perform(offset, Payload::Read(buf)).await {
            (Payload::Read(buf), result) => (buf, result),
            _ => unreachable!("an operation keeps its buffer"),
        }
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        self.perform(offset, Payload::Write(buf)).await.1
    }

    async fn flush(&self) -> io::Result<()> {
        self.perform(0, Payload::Flush).await.1
    }
}

/// The caller's side of an operation.
struct RingFuture<'a> {
    shared: &'a Shared,
    stage: Stage,
}

enum Stage {
    Waiting { start: Option<InFlight>, ticket: Option<u64> },
    Started(u32),
    Ended,
}

impl RingFuture<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(Payload, io::Result<()>)> {
        if let Stage::Waiting { start, ticket } = &mut self.stage {
            let index = ready!(self.shared.poll_start(start, ticket, context));
            self.stage = Stage::Started(index);
        }
        let Stage::Started(index) = self.stage else { unreachable!("polled after its end") };
        let end = ready!(self.shared.poll_end(index, context));
        self.stage = Stage::Ended;
        Poll::Ready(end)
    }
}

impl Drop for RingFuture<'_> {
    fn drop(&mut self) {
        match &self.stage {
            Stage::Waiting { start, ticket } => {
                self.shared.give_up(*ticket);
                if let Some(start) = start {
                    start.file.counters().abandon();
                }
            }
            Stage::Started(index) => self.shared.abandon(*index),
            Stage::Ended => {}
        }
    }
}
