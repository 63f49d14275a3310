//! The hardware of nodes: service times of a processor, a link and a disk.
//!
//! Processor and links serve in the order of arrival. A disk serves waiting requests in the order
//! of their positions, upwards and then from the lowest again, as Linux's elevator does. A piece
//! takes a seek that grows with the square root of the distance, a part of a rotation, and the
//! transfer. Large documents are read in pieces, between which other requests are served.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use device::{Clock, Nanos};
use sim::Handle;

use workload::generator::distributions::SplitMix;

const MICROSECOND: Nanos = 1_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DiskModel {
    /// Nanoseconds of every seek, whatever the distance.
    pub(super) settle: Nanos,
    /// Additional nanoseconds of a seek across the whole used range.
    pub(super) stroke: Nanos,
    /// Nanoseconds of a rotation.
    pub(super) turn: Nanos,
    /// Bytes per second.
    pub(super) rate: u64,
    /// Bytes read at a time.
    pub(super) piece: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hardware {
    /// Processor time in nanoseconds for a client's request, and per KiB of the response.
    pub(super) client: [Nanos; 2],
    /// The same for a request from another node.
    pub(super) peer: [Nanos; 2],
    /// Latency from one node to another, in nanoseconds.
    pub(super) latency: Nanos,
    /// Bytes per second that a node can send to others.
    pub(super) link: u64,
    /// Bytes per second that all clients together can receive.
    pub(super) clients: u64,
    pub(super) disk: DiskModel,
}

impl Hardware {
    /// The paper's hardware (section 4.1): Pentium II of 350 MHz, Myrinet, Fast Ethernet to the
    /// clients.
    ///
    /// The drive, an IBM DCAS-34330W, has 5,400 rpm and seeks in 8.5 ms on average. One of its 4.3
    /// GB is in use. The rest is assumed: 9 MB/s from the medium, 128 KB of read-ahead (Linux 2.2),
    /// and the processor times.
    pub(super) const PAPER: Hardware = Hardware {
        client: [1_000 * MICROSECOND, 25 * MICROSECOND],
        peer: [100 * MICROSECOND, 8 * MICROSECOND],
        latency: 20 * MICROSECOND,
        link: 100_000_000,
        clients: 12_500_000,
        disk: DiskModel {
            settle: 1_000 * MICROSECOND,
            stroke: 6_300 * MICROSECOND,
            turn: 11_111 * MICROSECOND,
            rate: 9_000_000,
            piece: 128 << 10,
        },
    };

    /// Present-day nodes within a data centre.
    pub(super) const TODAY: Hardware = Hardware {
        client: [50 * MICROSECOND, 500],
        peer: [20 * MICROSECOND, 300],
        latency: 100 * MICROSECOND,
        link: 1_250_000_000,
        clients: u64::MAX,
        disk: DiskModel {
            settle: 80 * MICROSECOND,
            stroke: 0,
            turn: 0,
            rate: 2_000_000_000,
            piece: 1 << 20,
        },
    };
}

/// Returns the time for `bytes` at `rate` bytes per second.
pub(super) fn transfer(bytes: u64, rate: u64) -> Nanos {
    (u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1))) as Nanos
}

/// A server with a queue in order of arrival: a processor or a link.
#[derive(Default)]
pub(super) struct Station {
    free: Cell<Nanos>,
    busy: Cell<Nanos>,
}

impl Station {
    /// Waits for its turn, then for `time`.
    pub(super) async fn serve(&self, clock: &Handle, time: Nanos) {
        let end = self.free.get().max(clock.now()) + time;
        self.free.set(end);
        self.busy.set(self.busy.get() + time);
        clock.sleep_until(end).await;
    }

    pub(super) fn busy(&self) -> Nanos {
        self.busy.get()
    }
}

/// A disk in virtual time.
pub(super) struct Disk {
    model: DiskModel,
    state: RefCell<State>,
    busy: Cell<Nanos>,
}

struct State {
    dice: SplitMix,
    /// Position of the arm, over the whole range.
    head: u32,
    /// The waiting requests, by position and ticket.
    waiting: BTreeMap<(u32, u64), Option<Waker>>,
    tickets: u64,
    /// Ticket of the request that is served, or is to be served next.
    turn: Option<u64>,
}

impl Disk {
    /// Creates an idle disk. `seed` determines the rotational positions.
    pub(super) fn new(model: DiskModel, seed: u64) -> Disk {
        let (dice, waiting) = (SplitMix::new(seed), BTreeMap::new());
        let state = State { dice, head: 0, waiting, tickets: 0, turn: None };
        Disk { model, state: RefCell::new(state), busy: Cell::new(0) }
    }

    /// Reads or writes `bytes` at a position, from 0 to `u32::MAX` over the used range. The future
    /// must not be dropped before its end: others would wait forever.
    pub(super) async fn transfer(&self, clock: &Handle, position: u32, bytes: u64) {
        let mut left = bytes.max(1);
        while left > 0 {
            let piece = left.min(self.model.piece);
            self.piece(clock, position, piece).await;
            left -= piece;
        }
    }

    pub(super) fn busy(&self) -> Nanos {
        self.busy.get()
    }

    async fn piece(&self, clock: &Handle, position: u32, bytes: u64) {
        let key = self.state.borrow_mut().enter(position);
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            if state.turn == Some(key.1) {
                return Poll::Ready(());
            }
            state.waiting.insert(key, Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
        let time = self.state.borrow_mut().time(&self.model, position, bytes);
        self.busy.set(self.busy.get() + time);
        clock.sleep_until(clock.now() + time).await;
        self.state.borrow_mut().next();
    }
}

impl State {
    fn enter(&mut self, position: u32) -> (u32, u64) {
        self.tickets += 1;
        let key = (position, self.tickets);
        match self.turn {
            None => self.turn = Some(key.1),
            Some(_) => drop(self.waiting.insert(key, None)),
        }
        key
    }

    /// Returns the time of a piece from the current position, and moves the arm.
    fn time(&mut self, model: &DiskModel, position: u32, bytes: u64) -> Nanos {
        let distance = f64::from(position.abs_diff(self.head)) / f64::from(u32::MAX);
        let stroke = (model.stroke as f64 * distance.sqrt()) as Nanos;
        let turn = (model.turn as f64 * self.dice.uniform()) as Nanos;
        self.head = position;
        model.settle + stroke + turn + transfer(bytes, model.rate)
    }

    /// Passes the turn to the next request upwards, or to the lowest.
    fn next(&mut self) {
        let upwards = self.waiting.range((self.head, 0)..).next();
        let next = upwards.or_else(|| self.waiting.iter().next()).map(|(key, _)| *key);
        self.turn = next.map(|(_, ticket)| ticket);
        let waker = next.and_then(|key| self.waiting.remove(&key).flatten());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use sim::Executor;

    use super::*;

    #[test]
    fn a_disk_serves_upwards_and_then_from_the_lowest() {
        let executor = Executor::new(None, 0);
        let clock = executor.handle();
        let disk = Rc::new(Disk::new(Hardware::PAPER.disk, 1));
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = [500_u32, 100, 900, 700]
            .map(|place| {
                let (disk, clock, order) = (Rc::clone(&disk), clock.clone(), Rc::clone(&order));
                clock.clone().spawn(async move {
                    disk.transfer(&clock, place * 1_000_000, 4_096).await;
                    order.borrow_mut().push(place);
                })
            })
            .into();
        executor.run(async {
            for task in tasks {
                task.await;
            }
        });
        assert_eq!(*order.borrow(), [500, 700, 900, 100]);
        assert_eq!(disk.busy(), clock.now());
    }

    #[test]
    fn a_lone_random_read_takes_what_the_drive_promises() {
        let executor = Executor::new(None, 0);
        let clock = executor.handle();
        let disk = Disk::new(DiskModel { stroke: 13_000_000, ..Hardware::PAPER.disk }, 1);
        let mut dice = SplitMix::new(2);
        const READS: u64 = 4_000;
        executor.run(async {
            for _ in 0..READS {
                disk.transfer(&clock, dice.number() as u32, 512).await;
            }
        });
        // 8 to 9 ms to seek over the whole drive, and half a rotation.
        let mean = clock.now() as f64 / READS as f64 / 1e6;
        assert!((13.5..14.7).contains(&mean), "{mean}");
    }
}
