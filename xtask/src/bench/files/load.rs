//! Sessions: each visits a page by its popularity, requests all objects that it embeds one after
//! another, then visits the next one. Every body is checked.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::Instant;

use testkit::pages;
use tokio::task::LocalSet;

use super::tree;
use crate::bench::exchange::{Connection, all};
use crate::bench::interruption::{self, interrupted};
use crate::bench::scenario::is_body;

/// Exponent of the popularity of pages.
const ALPHA: f64 = 0.8;

/// The load generator.
pub struct Load {
    to: SocketAddr,
    sessions: usize,
    popularity: Popularity,
    random: RefCell<fastrand::Rng>,
    requests: Cell<u64>,
}

/// Pages by Zipf's law, with randomly assigned ranks.
struct Popularity {
    /// Cumulative share of visits by rank.
    sums: Vec<f64>,
    pages: Vec<u32>,
}

impl Popularity {
    fn new(pages: u32) -> Popularity {
        let mut sums = Vec::with_capacity(pages as usize);
        let mut sum = 0.0;
        for rank in 1..=pages {
            sum += f64::from(rank).powf(-ALPHA);
            sums.push(sum);
        }
        sums.iter_mut().for_each(|share| *share /= sum);
        let mut pages: Vec<u32> = (0..pages).collect();
        fastrand::Rng::with_seed(3).shuffle(&mut pages);
        Popularity { sums, pages }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> u32 {
        let at = random.f64();
        let rank = self.sums.partition_point(|share| *share < at);
        self.pages[rank.min(self.pages.len() - 1)]
    }
}

impl Load {
    /// Creates a load of `sessions` sessions for the server at `to`.
    pub fn new(to: SocketAddr, sessions: usize, pages: u32) -> Load {
        let random = RefCell::new(fastrand::Rng::with_seed(7));
        Load { to, sessions, popularity: Popularity::new(pages), random, requests: Cell::new(0) }
    }

    /// Continues with another server.
    pub fn reconnect(&mut self, to: SocketAddr) {
        self.to = to;
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Visits every page once, in random order.
    ///
    /// # Errors
    ///
    /// Those of [`Load::run`].
    pub fn run_all(&self) -> Result<(), String> {
        let mut pages = self.popularity.pages.clone();
        self.random.borrow_mut().shuffle(&mut pages);
        let pages = RefCell::new(pages);
        run(async { self.sessions(&|| pages.borrow_mut().pop(), &|| true).await })
    }

    /// Visits pages by popularity for `requests` requests, but until `end` at the latest.
    ///
    /// # Errors
    ///
    /// When a connection breaks, a response is wrong, or the program is interrupted.
    pub fn run(&self, requests: u64, end: Option<Instant>) -> Result<(), String> {
        let most = self.requests.get().saturating_add(requests);
        let goes_on = || self.requests.get() < most && end.is_none_or(|end| Instant::now() < end);
        run(async { self.sessions(&|| self.draw(), &goes_on).await })
    }

    /// Continues until the last of `ends`, and calls `look` at each. Requests without a response by
    /// then are dropped.
    ///
    /// # Errors
    ///
    /// Those of [`Load::run`] and of `look`.
    pub fn run_past(
        &self,
        ends: &[Instant],
        mut look: impl FnMut() -> Result<(), String>,
    ) -> Result<(), String> {
        let looks = async {
            for end in ends {
                tokio::time::sleep_until((*end).into()).await;
                look()?;
            }
            Ok(())
        };
        let sessions = async { self.sessions(&|| self.draw(), &|| true).await };
        run(async {
            tokio::select! {
                ended = sessions => ended,
                ended = looks => ended,
            }
        })
    }

    fn draw(&self) -> Option<u32> {
        Some(self.popularity.draw(&mut self.random.borrow_mut()))
    }

    /// Runs the sessions as long as there is a next page and `goes_on` returns true.
    async fn sessions(
        &self,
        next: &dyn Fn() -> Option<u32>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        all((0..self.sessions).map(|_| self.session(next, goes_on)).collect()).await
    }

    async fn session(
        &self,
        next: &dyn Fn() -> Option<u32>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let mut connection = Connection::open(self.to, pages::BODY_MAX).await?;
        while let Some(page) = next() {
            for object in pages::objects(page) {
                if !goes_on() {
                    return Ok(());
                }
                let path = tree::path(object);
                let body = connection.get(&path).await?;
                if !is_body(object, pages::body_len(object), body) {
                    return Err(format!("{path}: a wrong body of {} bytes", body.len()));
                }
                self.requests.set(self.requests.get() + 1);
            }
        }
        Ok(())
    }
}

/// Runs the work on this thread, unless the program is interrupted.
fn run(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    interruption::check()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("the load generator: {e}"))?;
    let ended = LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            ended = work => ended,
            why = interrupted() => Err(why),
        }
    });
    // The signal may have ended the server, too.
    interruption::check().and(ended)
}

#[test]
fn popular_pages_are_visited_more() {
    let popularity = Popularity::new(1_000);
    let mut random = fastrand::Rng::with_seed(1);
    let mut visits = vec![0_u32; 1_000];
    (0..100_000).for_each(|_| visits[popularity.draw(&mut random) as usize] += 1);
    let of_rank = |rank: usize| visits[popularity.pages[rank] as usize];
    // The share of the first rank, and two to the power of the exponent.
    assert!((6_000..7_500).contains(&of_rank(0)), "{}", of_rank(0));
    let ratio = f64::from(of_rank(0)) / f64::from(of_rank(1));
    assert!((1.6..1.9).contains(&ratio), "{ratio}");
}
