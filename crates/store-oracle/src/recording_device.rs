//! A simulated disk that records flushes and errors in the history, in the order in which the store
//! learns of them.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use device::{Device, FrozenBuf, Geometry, IoBuf};
use sim::SimDisk;

use super::oracle::History;

/// A simulated disk that records its flushes and errors.
#[derive(Clone)]
pub struct RecordingDevice {
    /// The simulated disk.
    pub disk: SimDisk,
    history: Rc<RefCell<History>>,
}

impl RecordingDevice {
    /// Wraps `disk`; events are recorded in `history`.
    pub fn new(disk: SimDisk, history: Rc<RefCell<History>>) -> RecordingDevice {
        RecordingDevice { disk, history }
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.history.borrow_mut().failed();
        }
        result
    }
}

impl Device for RecordingDevice {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        let (buf, result) = self.disk.read(offset, buf).await;
        (buf, self.note(result))
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        let astray = self.disk.astray();
        let result = self.disk.write(offset, buf).await;
        if self.disk.astray() > astray {
            self.history.borrow_mut().goes_astray();
        }
        self.note(result)
    }

    async fn flush(&self) -> io::Result<()> {
        let begin = self.history.borrow_mut().stamp();
        self.note(self.disk.flush().await)?;
        self.history.borrow_mut().flushed(begin);
        Ok(())
    }
}
