//! What nodes are made of: what a processor, a link and a disk take for what is asked of them.
//!
//! Processor and links serve one after another, in the order of arrival. A disk serves those that
//! wait in the order of their positions, upwards and then from the lowest again, as Linux's
//! elevator does; the time of a piece is a seek that grows with the root of the distance, a part of
//! a turn and the transfer. Large documents are read in pieces, between which others have their
//! turn.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use device::{Clock, Nanos};
use sim::Handle;

use workload::generator::distributions::SplitMix;

const MICROSECOND: Nanos = 1_000;

/// A disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DiskModel {
    /// Nanoseconds that every seek takes.
    pub(super) settle: Nanos,
    /// Nanoseconds more from one end of what is used to the other.
    pub(super) stroke: Nanos,
    /// Nanoseconds of a turn.
    pub(super) turn: Nanos,
    /// Bytes a second.
    pub(super) rate: u64,
    /// Bytes that are read at a time.
    pub(super) piece: u64,
}

/// A node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hardware {
    /// Nanoseconds of the processor for a client's request, and for a KiB of the answer.
    pub(super) client: [Nanos; 2],
    /// The same for what another node asks.
    pub(super) peer: [Nanos; 2],
    /// Nanoseconds from one node to another.
    pub(super) latency: Nanos,
    /// Bytes a second that a node sends to others.
    pub(super) link: u64,
    /// Bytes a second that all clients together are sent.
    pub(super) clients: u64,
    /// Its disk.
    pub(super) disk: DiskModel,
}

impl Hardware {
    /// The paper's (section 4.1): Pentium II of 350 MHz, Myrinet, Fast Ethernet to the clients.
    ///
    /// The drive, IBM's DCAS-34330W, turns 5,400 times a minute and seeks in 8.5 ms on average. A
    /// gigabyte of its 4.3 is in use. The rest is assumed: 9 MB/s from the medium, 128 KB of
    /// reading ahead (Linux 2.2), what the processor takes.
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

    /// Nodes of today, within a data centre.
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

/// Returns how long `bytes` take at `rate` bytes a second.
pub(super) fn transfer(bytes: u64, rate: u64) -> Nanos {
    (u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1))) as Nanos
}

/// Whatever serves one after another: a processor, a link.
#[derive(Default)]
pub(super) struct Station {
    free: Cell<Nanos>,
    busy: Cell<Nanos>,
}

impl Station {
    /// Waits for its turn and is served for `time`.
    pub(super) async fn serve(&self, clock: &Handle, time: Nanos) {
        let end = self.free.get().max(clock.now()) + time;
        self.free.set(end);
        self.busy.set(self.busy.get() + time);
        clock.sleep_until(end).await;
    }

    /// Returns for how long it has served in all.
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
    /// Where the arm is, of all positions.
    head: u32,
    /// By position and number: who waits.
    waiting: BTreeMap<(u32, u64), Option<Waker>>,
    tickets: u64,
    /// Who is served, or may be as soon as it looks.
    turn: Option<u64>,
}

impl Disk {
    /// At rest. `seed`: where the disk is in its turn when somebody comes.
    pub(super) fn new(model: DiskModel, seed: u64) -> Disk {
        let (dice, waiting) = (SplitMix::new(seed), BTreeMap::new());
        let state = State { dice, head: 0, waiting, tickets: 0, turn: None };
        Disk { model, state: RefCell::new(state), busy: Cell::new(0) }
    }

    /// Reads or writes `bytes` at a position, 0 to `u32::MAX` from one end of what is used to the
    /// other. Not to be given up before its end: others would wait for ever.
    pub(super) async fn transfer(&self, clock: &Handle, position: u32, bytes: u64) {
        let mut left = bytes.max(1);
        while left > 0 {
            let piece = left.min(self.model.piece);
            self.piece(clock, position, piece).await;
            left -= piece;
        }
    }

    /// Returns for how long it has served in all.
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

    /// How long a piece takes from here; the arm is there afterwards.
    fn time(&mut self, model: &DiskModel, position: u32, bytes: u64) -> Nanos {
        let distance = f64::from(position.abs_diff(self.head)) / f64::from(u32::MAX);
        let stroke = (model.stroke as f64 * distance.sqrt()) as Nanos;
        let turn = (model.turn as f64 * self.dice.uniform()) as Nanos;
        self.head = position;
        model.settle + stroke + turn + transfer(bytes, model.rate)
    }

    /// Gives the turn to the next one upwards, or to the lowest.
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
        // 8 to 9 ms to seek over the whole drive, half a turn.
        let mean = clock.now() as f64 / READS as f64 / 1e6;
        assert!((13.5..14.7).contains(&mean), "{mean}");
    }
}
