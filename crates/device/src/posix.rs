//! A device based on pread, pwrite and fdatasync with a few threads, for machines where io_uring is
//! refused. Works with and without O_DIRECT.

use std::io;
use std::sync::Arc;

use crate::file::cache_file::CacheFile;
use crate::file::thread_pool::Queue;
use crate::transfer::payload::Payload;
use crate::{Device, Extent, FrozenBuf, Geometry, IoBuf};

/// A file served by its pool of threads. Unlike a ring it may move between threads.
#[derive(Clone)]
pub struct PosixDevice {
    file: Arc<CacheFile>,
    queue: Arc<Queue>,
}

impl PosixDevice {
    pub(crate) fn new(file: Arc<CacheFile>, queue: Arc<Queue>) -> PosixDevice {
        PosixDevice { file, queue }
    }

    pub(crate) fn file(&self) -> &CacheFile {
        &self.file
    }

    async fn perform(&self, offset: u64, payload: Payload) -> (Payload, io::Result<()>) {
        let counters = self.file.counters();
        counters.begin(payload.operation());
        let extent = Extent { offset, len: payload.len() as u64 };
        if let Err(error) = self.file.geometry().check(extent) {
            counters.refuse();
            return (payload, Err(error));
        }
        self.queue.perform(self.file.handle().clone(), counters.clone(), offset, payload).await
    }
}

impl Device for PosixDevice {
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
