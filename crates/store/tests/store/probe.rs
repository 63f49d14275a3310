//! A memory device that records flushes and errors in the history, and calls a test back while each
//! write is under way and after each operation. The test can copy the device as a crash at exactly
//! that moment would leave it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use device::{Device, FrozenBuf, Geometry, IoBuf, MemoryDevice};
use store_oracle::History;

type Hook = Box<dyn FnMut(&MemoryDevice)>;

/// Controls of a test while the store uses the device.
#[derive(Default)]
pub struct Watch {
    hook: RefCell<Option<Hook>>,
    /// Makes the next read wait until this is false again.
    stall_read: Cell<bool>,
    /// Makes it wait after it has read, not before.
    stall_late: Cell<bool>,
    /// True while a read waits.
    stalled: Cell<bool>,
}

impl Watch {
    /// Calls `hook` from now on; `None` ends that.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *self.hook.borrow_mut() = hook;
    }

    /// Makes the next read wait for [`Watch::resume_read`]; later ones pass.
    pub fn stall_read(&self) {
        self.stall_read.set(true);
        self.stall_late.set(false);
    }

    /// Makes the next read return what the device holds now, but end only after
    /// [`Watch::resume_read`].
    pub fn stall_read_with_its_bytes(&self) {
        self.stall_read.set(true);
        self.stall_late.set(true);
    }

    /// Resumes the read that waits.
    pub fn resume_read(&self) {
        self.stall_read.set(false);
    }

    fn call(&self, memory: &MemoryDevice) {
        if let Some(hook) = self.hook.borrow_mut().as_mut() {
            hook(memory);
        }
    }
}

/// The device. A clone is another handle.
#[derive(Clone)]
pub struct Probe {
    pub memory: MemoryDevice,
    pub watch: Rc<Watch>,
    pub history: Rc<RefCell<History>>,
}

impl Probe {
    pub fn new(memory: MemoryDevice) -> Probe {
        Probe { memory, watch: Rc::default(), history: Rc::default() }
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.history.borrow_mut().failed();
        }
        result
    }
}

impl Device for Probe {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        let stalled = &self.watch.stalled;
        let resumed = || if self.watch.stall_read.get() { Poll::Pending } else { Poll::Ready(()) };
        let stalls = self.watch.stall_read.get() && !stalled.replace(true);
        let late = self.watch.stall_late.get();
        if stalls && !late {
            poll_fn(|_| resumed()).await;
        }
        let (buf, result) = self.memory.read(offset, buf).await;
        if stalls && late {
            poll_fn(|_| resumed()).await;
        }
        if stalls {
            stalled.set(false);
        }
        (buf, self.note(result))
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        if self.watch.hook.borrow().is_none() {
            return self.note(self.memory.write(offset, buf).await);
        }
        // Held during the call, so that the write is under way then.
        self.memory.hold();
        let mut write = pin!(self.memory.write(offset, buf));
        let first = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
        self.watch.call(&self.memory);
        self.memory.release_all();
        let result = match first {
            Poll::Ready(result) => result,
            Poll::Pending => write.await,
        };
        let result = self.note(result);
        self.watch.call(&self.memory);
        result
    }

    async fn flush(&self) -> io::Result<()> {
        let begin = self.history.borrow_mut().stamp();
        self.note(self.memory.flush().await)?;
        self.history.borrow_mut().flushed(begin);
        self.watch.call(&self.memory);
        Ok(())
    }
}
