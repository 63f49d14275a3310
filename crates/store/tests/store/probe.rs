//! A memory device that numbers moments: it notes when flushes began and ended, and calls a test
//! back while each write is under way and after each operation, so that the test can take the
//! device as a crash at just that moment would leave it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use device::{Device, FrozenBuf, Geometry, IoBuf, MemoryDevice};

/// A moment: later ones are larger.
pub type Stamp = u64;

type Hook = Box<dyn FnMut(&MemoryDevice, Stamp)>;

/// What the probe knows of time and flushes.
#[derive(Default)]
pub struct Watch {
    now: Cell<Stamp>,
    /// Flushes that succeeded: begin and end.
    flushes: RefCell<Vec<(Stamp, Stamp)>>,
    hook: RefCell<Option<Hook>>,
    /// The next read waits until this is false again.
    stall_read: Cell<bool>,
    /// It waits with what it has read, not before it reads.
    stall_late: Cell<bool>,
    /// A read waits.
    stalled: Cell<bool>,
}

impl Watch {
    /// A new moment.
    pub fn stamp(&self) -> Stamp {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    /// Flushes so far: begin and end of each.
    pub fn flushes(&self) -> Vec<(Stamp, Stamp)> {
        self.flushes.borrow().clone()
    }

    /// Everything before `stamp` is durable, for another reason than a flush.
    pub fn count_as_flushed(&self, stamp: Stamp) {
        let end = self.stamp();
        self.flushes.borrow_mut().push((stamp, end));
    }

    /// Calls `hook` from now on, `None`: no more.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *self.hook.borrow_mut() = hook;
    }

    /// The next read waits for [`Watch::resume_read`]; others pass.
    pub fn stall_read(&self) {
        self.stall_read.set(true);
        self.stall_late.set(false);
    }

    /// The next read sees what the device holds now, and ends only after [`Watch::resume_read`].
    pub fn stall_read_with_its_bytes(&self) {
        self.stall_read.set(true);
        self.stall_late.set(true);
    }

    /// Lets the read go on that waits.
    pub fn resume_read(&self) {
        self.stall_read.set(false);
    }

    fn call(&self, memory: &MemoryDevice) {
        let stamp = self.stamp();
        if let Some(hook) = self.hook.borrow_mut().as_mut() {
            hook(memory, stamp);
        }
    }
}

/// The device. A clone is another handle.
#[derive(Clone)]
pub struct Probe {
    pub memory: MemoryDevice,
    pub watch: Rc<Watch>,
}

impl Probe {
    pub fn new(memory: MemoryDevice) -> Probe {
        Probe { memory, watch: Rc::default() }
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
        let read = self.memory.read(offset, buf).await;
        if stalls && late {
            poll_fn(|_| resumed()).await;
        }
        if stalls {
            stalled.set(false);
        }
        read
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        if self.watch.hook.borrow().is_none() {
            return self.memory.write(offset, buf).await;
        }
        // Held back for the length of one call, so that the write is under way then.
        self.memory.hold();
        let mut write = pin!(self.memory.write(offset, buf));
        let first = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
        self.watch.call(&self.memory);
        self.memory.release_all();
        let result = match first {
            Poll::Ready(result) => result,
            Poll::Pending => write.await,
        };
        self.watch.call(&self.memory);
        result
    }

    async fn flush(&self) -> io::Result<()> {
        let begin = self.watch.stamp();
        self.memory.flush().await?;
        let end = self.watch.stamp();
        self.watch.flushes.borrow_mut().push((begin, end));
        self.watch.call(&self.memory);
        Ok(())
    }
}
