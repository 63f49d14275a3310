//! Requests under way: lanes that carry out one request each, and take turns at leading.
//!
//! The lane that leads takes the next request, waits for its arrival and begins it. If the request
//! has to wait for something, another lane leads meanwhile; if not, as with a hit in memory, the
//! same lane goes on at once, and nothing is allocated, queued or woken.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use device::{Clock, Nanos};
use sim::Handle;

/// A stream of requests at a fixed distance.
pub(super) struct Lanes<I> {
    clock: Handle,
    interval: Nanos,
    requests: RefCell<I>,
    /// When the next request comes.
    arrival: Cell<Nanos>,
    led: Cell<bool>,
    /// Lanes that have nothing to do, each once.
    idle: RefCell<Vec<(usize, Waker)>>,
}

impl<I: Iterator<Item = u32> + 'static> Lanes<I> {
    /// The first request comes after `interval` nanoseconds.
    pub(super) fn new(clock: Handle, interval: Nanos, requests: I) -> Rc<Lanes<I>> {
        let arrival = Cell::new(clock.now() + interval);
        let (led, idle) = (Cell::new(false), RefCell::default());
        Rc::new(Lanes { clock, interval, requests: RefCell::new(requests), arrival, led, idle })
    }

    /// Lets `carry_out` answer all requests, at most `lanes` at a time.
    pub(super) async fn run<F: Future<Output = ()> + 'static>(
        self: Rc<Self>,
        lanes: usize,
        carry_out: impl Fn(u32) -> F + Clone + 'static,
    ) {
        let lane = |number| {
            let (all, carry_out) = (Rc::clone(&self), carry_out.clone());
            self.clock.spawn(async move { all.lane(number, carry_out).await })
        };
        let tasks: Vec<_> = (0..lanes.max(1)).map(lane).collect();
        for task in tasks {
            task.await;
        }
    }

    async fn lane<F: Future<Output = ()>>(&self, number: usize, carry_out: impl Fn(u32) -> F) {
        loop {
            self.turn(number).await;
            let mut leads = true;
            while leads {
                let Some(request) = self.requests.borrow_mut().next() else {
                    self.pass_on();
                    return;
                };
                let arrival = self.arrival.replace(self.arrival.get() + self.interval);
                if !self.clock.skip_to(arrival) {
                    self.clock.sleep_until(arrival).await;
                }
                let mut work = pin!(carry_out(request));
                poll_fn(|context| {
                    let polled = work.as_mut().poll(context);
                    if polled.is_pending() && std::mem::take(&mut leads) {
                        self.pass_on();
                    }
                    polled
                })
                .await;
            }
        }
    }

    /// Waits until this lane leads.
    async fn turn(&self, number: usize) {
        poll_fn(|context| {
            // A lane may be woken by what it waited for earlier: it is here still, perhaps.
            let mut idle = self.idle.borrow_mut();
            idle.retain(|(lane, _)| *lane != number);
            if self.led.replace(true) {
                idle.push((number, context.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    fn pass_on(&self) {
        self.led.set(false);
        let next = self.idle.borrow_mut().pop();
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }
}
