//! Several drives as one: units of sectors are laid over them in turn, and all work in parallel.
//!
//! Guarantees: a request is done when its last part is. A drive never gets more concurrent requests
//! than its depth; the rest wait in order of arrival.

use device::Nanos;

use crate::drives::{Drive, Operation, Request};

/// Drives striped into one.
#[derive(Clone, Debug)]
pub struct Striped<D> {
    members: Vec<Member<D>>,
    /// Sectors per unit.
    unit: u64,
    sectors: u64,
}

#[derive(Clone, Debug)]
struct Member<D> {
    drive: D,
    /// End of each request in progress.
    busy: Vec<Nanos>,
    /// Time of the last request handed over.
    given: Nanos,
}

/// Why drives cannot be striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStriped {
    /// The list of drives is empty.
    #[error("no drives to stripe")]
    NoDrives,
    /// The unit (in sectors) is zero or larger than a drive.
    #[error("a stripe unit of {0} sectors: use 1 to the size of a drive")]
    Unit(u64),
}

impl<D: Drive> Striped<D> {
    /// Stripes `drives` in units of `unit` sectors. Each is used up to the size of the smallest, in
    /// whole units.
    pub fn new(drives: Vec<D>, unit: u64) -> Result<Striped<D>, NotStriped> {
        let smallest = drives.iter().map(Drive::sectors).min().ok_or(NotStriped::NoDrives)?;
        let units = smallest.checked_div(unit).filter(|units| *units > 0);
        let units = units.ok_or(NotStriped::Unit(unit))?;
        let sectors = units * unit * drives.len() as u64;
        let member = |drive: D| Member { busy: vec![0; drive.depth().max(1)], given: 0, drive };
        Ok(Striped { members: drives.into_iter().map(member).collect(), unit, sectors })
    }

    /// Returns the first sector of drive `index` that lies at or after `sector` of the whole.
    fn first_on(&self, index: u64, sector: u64) -> u64 {
        let row = self.unit * self.members.len() as u64;
        let begin = sector % row;
        let mine = index * self.unit;
        sector / row * self.unit + begin.saturating_sub(mine).min(self.unit)
    }
}

impl<D: Drive> Member<D> {
    /// Hands a request that arrived at `now` to the drive; returns its completion time.
    fn give(&mut self, now: Nanos, request: Request) -> Nanos {
        let Some(place) = (0..self.busy.len()).min_by_key(|place| self.busy[*place]) else {
            return now;
        };
        self.given = now.max(self.busy[place]).max(self.given);
        self.busy[place] = self.drive.serve(self.given, request);
        self.busy[place]
    }
}

impl<D: Drive> Drive for Striped<D> {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn depth(&self) -> usize {
        self.members.iter().map(|member| member.drive.depth()).sum()
    }

    fn serve(&mut self, now: Nanos, request: Request) -> Nanos {
        let Request { operation, sector, sectors } = request;
        let mut done = now;
        for index in 0..self.members.len() {
            // The part of a request on one drive is contiguous.
            let (begin, end) = match operation {
                Operation::Flush => (0, 0),
                _ => {
                    let index = index as u64;
                    (self.first_on(index, sector), self.first_on(index, sector + sectors))
                }
            };
            if begin < end || operation == Operation::Flush {
                let piece = Request { operation, sector: begin, sectors: end - begin };
                done = done.max(self.members[index].give(now, piece));
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records its requests; a sector takes 1 ns.
    struct Recorder {
        given: std::rc::Rc<std::cell::RefCell<Vec<(Nanos, Request)>>>,
    }

    impl Drive for Recorder {
        fn sectors(&self) -> u64 {
            1000
        }

        fn depth(&self) -> usize {
            1
        }

        fn serve(&mut self, now: Nanos, request: Request) -> Nanos {
            self.given.borrow_mut().push((now, request));
            now + request.sectors
        }
    }

    fn striped(drives: usize, unit: u64) -> (Striped<Recorder>, Vec<Given>) {
        let given: Vec<Given> = (0..drives).map(|_| Given::default()).collect();
        let recorders = given.iter().map(|given| Recorder { given: given.clone() }).collect();
        (Striped::new(recorders, unit).unwrap(), given)
    }

    type Given = std::rc::Rc<std::cell::RefCell<Vec<(Nanos, Request)>>>;

    fn read(sector: u64, sectors: u64) -> Request {
        Request { operation: Operation::Read, sector, sectors }
    }

    #[test]
    fn each_sector_lies_on_one_drive_at_one_place() {
        let (mut drive, given) = striped(3, 16);
        assert_eq!(drive.sectors(), 62 * 16 * 3);
        assert_eq!(drive.depth(), 3);
        let mut seen = std::collections::BTreeSet::new();
        for sector in 0..drive.sectors() {
            drive.serve(sector * 10, read(sector, 1));
            let mut of_this = given.iter().enumerate().flat_map(|(index, given)| {
                given
                    .borrow_mut()
                    .drain(..)
                    .map(move |(_, request)| (index, request))
                    .collect::<Vec<_>>()
            });
            let (index, request) = of_this.next().unwrap();
            assert!(of_this.next().is_none());
            assert_eq!(request.sectors, 1);
            assert_eq!(index as u64, sector / 16 % 3);
            assert!(seen.insert((index, request.sector)));
            assert!(request.sector < 1000);
        }
    }

    #[test]
    fn a_large_request_is_one_piece_a_drive() {
        let (mut drive, given) = striped(3, 16);
        // Units 1 to 6: the second drive has two and a half of them.
        assert_eq!(drive.serve(5, read(16, 88)), 5 + 32);
        let pieces: Vec<_> = given.iter().map(|given| given.borrow().clone()).collect();
        assert_eq!(pieces[0], [(5, read(16, 24))]);
        assert_eq!(pieces[1], [(5, read(0, 32))]);
        assert_eq!(pieces[2], [(5, read(0, 32))]);
    }

    #[test]
    fn a_busy_drive_lets_wait_and_the_others_work() {
        let (mut drive, _) = striped(2, 16);
        assert_eq!(drive.serve(0, read(0, 16)), 16);
        assert_eq!(drive.serve(1, read(0, 16)), 32);
        assert_eq!(drive.serve(2, read(16, 16)), 18);
    }

    #[test]
    fn invalid_stripes_are_rejected() {
        let none: Vec<Recorder> = Vec::new();
        assert_eq!(Striped::new(none, 8).err(), Some(NotStriped::NoDrives));
        for unit in [0, 1001] {
            let one = vec![Recorder { given: Given::default() }];
            assert_eq!(Striped::new(one, unit).err(), Some(NotStriped::Unit(unit)));
        }
    }
}
