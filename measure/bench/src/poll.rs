//! Waits for sockets and for time, with microsecond accuracy: epoll, edge-triggered.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

/// Maximum number of sockets reported at a time.
const EVENTS: usize = 256;

/// The readiness of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token with which it was added.
    pub token: u64,
    /// Bytes, the end or an error can be read.
    pub read: bool,
    /// Bytes can be written.
    pub write: bool,
    /// The peer has closed the connection: the end follows the available bytes.
    pub end: bool,
}

/// The sockets of a thread.
pub struct Poll {
    epoll: OwnedFd,
}

/// The sockets that became ready. Reused by its thread.
#[derive(Default)]
pub struct Events {
    events: Vec<Event>,
    ready: Vec<Ready>,
}

impl Events {
    /// Removes and returns them.
    pub fn drain(&mut self) -> impl Iterator<Item = Ready> + '_ {
        self.ready.drain(..)
    }
}

impl Poll {
    /// Creates a poll without sockets.
    ///
    /// # Errors
    /// Fails if the kernel has no more resources.
    pub fn new() -> io::Result<Poll> {
        Ok(Poll { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds a socket with a token, until it is closed. Each change to ready is reported once.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let what = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), what)?)
    }

    /// Adds a listener with a token; it is reported as long as a connection waits.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn add_listener(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// Waits until a socket is ready, or for `most`; without a limit if it is `None`. A signal also
    /// ends the wait.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
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
