//! One end of a connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::network::pipe::{Found, Pipe};
use crate::network::{Network, What, lock};

#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub near: SocketAddr,
    pub far: SocketAddr,
}

/// One end of a connection. Dropping it closes it, as when a process ends: the other end reads the
/// end of the stream, or gets a reset if unread bytes were left here.
pub struct Connection {
    network: Network,
    ends: Ends,
    outgoing: Arc<Mutex<Pipe>>,
    incoming: Arc<Mutex<Pipe>>,
    /// Fires when the next bytes arrive.
    timer: Mutex<Option<Pin<Box<Sleep>>>>,
    resets: AtomicBool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.ends.near, self.ends.far)
    }
}

impl Connection {
    /// Returns both ends of a new connection, the near one first.
    pub(super) fn pair(network: &Network, ends: Ends) -> (Connection, Connection) {
        let Ends { near, far } = ends;
        let mut state = network.state();
        let mut pipe = |from: SocketAddr, to: SocketAddr| {
            let pipe = Pipe::new(state.link(from.ip(), to.ip()).buffer.max(1));
            let pipe = Arc::new(Mutex::new(pipe));
            state.pipes.insert((from, to), pipe.clone());
            pipe
        };
        let (there, back) = (pipe(near, far), pipe(far, near));
        drop(state);
        let end = |ends, outgoing: &Arc<Mutex<Pipe>>, incoming: &Arc<Mutex<Pipe>>| Connection {
            network: network.clone(),
            ends,
            outgoing: outgoing.clone(),
            incoming: incoming.clone(),
            timer: Mutex::default(),
            resets: AtomicBool::new(false),
        };
        (end(ends, &there, &back), end(Ends { near: far, far: near }, &back, &there))
    }

    /// Returns the address of the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.ends.far
    }

    /// Makes the close a reset.
    pub fn reset_at_close(&self) {
        self.resets.store(true, Ordering::Relaxed);
    }

    /// Waits until there is something to read: bytes, the end, or an error.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = lock(&self.timer);
        loop {
            let found = lock(&self.incoming).look(cx);
            let arrives = match found {
                Found::Something => return Poll::Ready(()),
                Found::Nothing => return Poll::Pending,
                Found::Later(arrives) => arrives,
            };
            match &mut *timer {
                Some(timer) if timer.deadline() == arrives => {}
                Some(timer) => timer.as_mut().reset(arrives),
                None => *timer = Some(Box::pin(sleep_until(arrives))),
            }
            if let Some(timer) = &mut *timer {
                ready!(timer.as_mut().poll(cx));
            }
            *timer = None;
        }
    }

    /// Returns when bytes sent now arrive; `None` while the path is cut.
    fn arrival(&self) -> Option<Instant> {
        let Ends { near, far } = self.ends;
        let mut state = self.network.state();
        let delay = state.delay(near.ip(), far.ip());
        (!state.is_cut(near, far)).then(|| Instant::now() + delay)
    }

    /// Draws whether the connection is reset or falls silent.
    fn fate(&self) {
        let Ends { near, far } = self.ends;
        let mut state = self.network.state();
        let (resets, silences) = {
            let link = state.link(near.ip(), far.ip());
            (link.resets, link.silences)
        };
        if resets == 0 && silences == 0 {
            return;
        }
        let drawn = state.random.u32(..1_000_000);
        drop(state);
        if drawn < resets {
            self.break_off();
        } else if drawn < resets.saturating_add(silences) {
            lock(&self.outgoing).fall_silent();
            self.network.note(near, far, What::Silent);
        }
    }

    fn break_off(&self) {
        lock(&self.outgoing).reset();
        lock(&self.incoming).reset();
        self.network.note(self.ends.near, self.ends.far, What::Reset);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_readable(cx));
        let Ends { near, far } = self.ends;
        let acknowledged = !self.network.state().is_cut(near, far);
        let bytes = lock(&self.incoming).take(buf.remaining(), acknowledged)?;
        buf.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.fate();
        let Ends { near, far } = self.ends;
        let arrives = self.arrival();
        let (sent, unheard) = {
            let mut outgoing = lock(&self.outgoing);
            (ready!(outgoing.send(bytes, arrives, cx))?, outgoing.is_abandoned())
        };
        self.network.note(near, far, What::Sent(sent));
        if unheard && arrives.is_some() {
            // A peer that has closed responds to unwanted bytes with a reset.
            self.break_off();
        }
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let arrives = self.arrival();
        if lock(&self.outgoing).end(arrives) {
            self.network.note(self.ends.near, self.ends.far, What::Ended);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Ends { near, far } = self.ends;
        let arrives = self.arrival();
        let unread = lock(&self.incoming).abandon();
        if lock(&self.outgoing).is_reset() {
        } else if arrives.is_some() && (unread || self.resets.load(Ordering::Relaxed)) {
            self.break_off();
        } else if lock(&self.outgoing).end(arrives) {
            self.network.note(near, far, What::Ended);
        }
        let over = lock(&self.outgoing).is_over() && lock(&self.incoming).is_over();
        if over {
            let mut state = self.network.state();
            state.pipes.remove(&(near, far));
            state.pipes.remove(&(far, near));
        }
    }
}
