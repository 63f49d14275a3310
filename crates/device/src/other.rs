//! A device from outside this crate, behind a pointer, for simulations whose users accept any
//! device. Its operations are boxed; other devices do not pay for that.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use crate::transfer::counters::{Counters, Operation};
use crate::{Device, FrozenBuf, Geometry, IoBuf};

/// A device from outside this crate. A clone is another handle to the same device.
#[derive(Clone)]
pub struct OtherDevice {
    device: Rc<dyn Boxed>,
    counters: Arc<Counters>,
}

type Running<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// An object-safe version of [`Device`].
trait Boxed {
    fn geometry(&self) -> Geometry;
    fn read(&self, offset: u64, buf: IoBuf) -> Running<'_, (IoBuf, io::Result<()>)>;
    fn write(&self, offset: u64, buf: FrozenBuf) -> Running<'_, io::Result<()>>;
    fn flush(&self) -> Running<'_, io::Result<()>>;
}

impl<D: Device> Boxed for D {
    fn geometry(&self) -> Geometry {
        Device::geometry(self)
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Running<'_, (IoBuf, io::Result<()>)> {
        Box::pin(Device::read(self, offset, buf))
    }

    fn write(&self, offset: u64, buf: FrozenBuf) -> Running<'_, io::Result<()>> {
        Box::pin(Device::write(self, offset, buf))
    }

    fn flush(&self) -> Running<'_, io::Result<()>> {
        Box::pin(Device::flush(self))
    }
}

/// Ends an operation in the counters, even if its future is dropped.
struct Counted<'a> {
    counters: &'a Counters,
    operation: Operation,
    over: bool,
}

impl<'a> Counted<'a> {
    fn begin(counters: &'a Counters, operation: Operation) -> Counted<'a> {
        counters.begin(operation);
        Counted { counters, operation, over: false }
    }

    fn end(mut self, bytes: u64, result: &io::Result<()>) {
        self.over = true;
        self.counters.end(self.operation, bytes, result);
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.counters.abandon();
        }
    }
}

impl OtherDevice {
    /// Wraps a device of any kind.
    pub fn new(device: impl Device) -> OtherDevice {
        OtherDevice { device: Rc::new(device), counters: Arc::default() }
    }

    /// Returns the counters of operations through this handle and its clones.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

impl Device for OtherDevice {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        let (counted, bytes) = (Counted::begin(&self.counters, Operation::Read), buf.len() as u64);
        let (buf, result) = self.device.read(offset, buf).await;
        counted.end(bytes, &result);
        (buf, result)
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        let (counted, bytes) = (Counted::begin(&self.counters, Operation::Write), buf.len() as u64);
        let result = self.device.write(offset, buf).await;
        counted.end(bytes, &result);
        result
    }

    async fn flush(&self) -> io::Result<()> {
        let counted = Counted::begin(&self.counters, Operation::Flush);
        let result = self.device.flush().await;
        counted.end(0, &result);
        result
    }
}
