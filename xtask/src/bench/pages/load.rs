//! The sessions: each asks for all objects of a page, one after another, then visits the next one.
//! Every answer is checked.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

use testbed::pages::{self, Visits};
use tokio::task::LocalSet;

use crate::bench::exchange::{Connection, all};
use crate::bench::interruption::{self, interrupted};
use crate::bench::scenario::is_body;

/// See the module.
pub struct Load {
    to: SocketAddr,
    sessions: usize,
    visits: RefCell<Visits>,
    requests: Cell<u64>,
    bytes: Cell<u64>,
}

impl Load {
    /// Starts so many sessions with the server at `to`.
    pub fn new(to: SocketAddr, sessions: usize) -> Load {
        let visits = RefCell::new(Visits::with_seed(7));
        Load { to, sessions, visits, requests: Cell::new(0), bytes: Cell::new(0) }
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Returns the number of bytes in the answers' bodies so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Goes on for so many requests.
    ///
    /// # Errors
    ///
    /// When a connection breaks, an answer is not the right one, or the program is interrupted.
    pub fn run(&self, requests: u64) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(|e| format!("the load generator: {e}"))?;
        let until = self.requests.get() + requests;
        interruption::check()?;
        let ended = LocalSet::new().block_on(&runtime, async {
            tokio::select! {
                ended = all((0..self.sessions).map(|_| self.session(until)).collect()) => ended,
                why = interrupted() => Err(why),
            }
        });
        // The signal may have ended the server, too.
        interruption::check().and(ended)
    }

    async fn session(&self, until: u64) -> Result<(), String> {
        let mut connection = Connection::open(self.to, pages::BODY_MAX).await?;
        loop {
            let page = self.visits.borrow_mut().next();
            for object in pages::objects(page) {
                if self.requests.get() >= until {
                    return Ok(());
                }
                self.requests.set(self.requests.get() + 1);
                let path = path(object);
                let body = connection.get(&path).await?;
                if !is_body(object, pages::body_len(object), body) {
                    return Err(format!("{path}: a wrong body of {} bytes", body.len()));
                }
                self.bytes.set(self.bytes.get() + body.len() as u64);
            }
        }
    }
}

/// Returns the path of the object: a page and its embedded objects share a directory.
fn path(object: u64) -> String {
    format!("/page/{}/{object}-{}", pages::page_of(object), pages::body_len(object))
}
