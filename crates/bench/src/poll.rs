//! Waiting for sockets and for time, to the microsecond: epoll, edge-triggered.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

/// Sockets that are told of at a time.
const EVENTS: usize = 256;

/// What may be done with a socket again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number under which it was added.
    pub token: u64,
    /// There are bytes, an end, or an error to be read.
    pub read: bool,
    /// There is room for bytes.
    pub write: bool,
    /// The other side has closed it: behind the bytes there is the end.
    pub end: bool,
}

/// The sockets of a thread.
pub struct Poll {
    epoll: OwnedFd,
}

/// The sockets that became ready. It stays with its thread.
#[derive(Default)]
pub struct Events {
    events: Vec<Event>,
    ready: Vec<Ready>,
}

impl Events {
    /// Takes them.
    pub fn drain(&mut self) -> impl Iterator<Item = Ready> + '_ {
        self.ready.drain(..)
    }
}

impl Poll {
    /// No sockets yet.
    ///
    /// # Errors
    /// The kernel has no more.
    pub fn new() -> io::Result<Poll> {
        Ok(Poll { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds a socket under a number, until it is closed. It is told of when it becomes ready, once.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let what = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), what)?)
    }

    /// Adds a listener under a number: it is told of as long as a connection waits.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_listener(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// Waits until a socket is ready, or so long; without an end when `None`. A signal ends it,
    /// too.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait(&self, most: Option<Duration>, to: &mut Events) -> io::Result<()> {
        let most = most.map(|most| Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(most.subsec_nanos()),
        });
        to.events.clear();
        to.events.reserve(EVENTS);
        match epoll::wait(&self.epoll, spare_capacity(&mut to.events), most.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let read = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let write = EventFlags::OUT | EventFlags::HUP | EventFlags::ERR;
        to.ready.clear();
        to.ready.extend(to.events.iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            Ready {
                token: data.u64(),
                read: flags.intersects(read),
                write: flags.intersects(write),
                end: flags.intersects(EventFlags::RDHUP | EventFlags::HUP),
            }
        }));
        Ok(())
    }
}
