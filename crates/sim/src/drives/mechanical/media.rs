//! Arm and spindle: the times at which the heads pass over the sectors of a request.
//!
//! The spindle never stops, so the angle under the heads follows from the time. The arm waits for
//! its sector, and moves to the next track behind the last sector of a track.

use crate::drives::drive_file::DriveFile;
use crate::drives::mechanical::geometry::{Geometry, Run};

/// Arm, spindle and the medium below them. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Media {
    /// The places of sectors.
    pub geometry: Geometry,
    /// Duration of one rotation, and its inverse.
    rotation: f64,
    rotations: f64,
    head_switch: f64,
    write_settling: f64,
    /// Seek times by distance in cylinders.
    seek: Vec<f64>,
    /// Lag of the angle behind the time.
    lag: f64,
}

impl Run {
    /// Returns the position of the arm over the run.
    pub fn arm(&self) -> Arm {
        Arm { cylinder: self.cylinder, head: self.head }
    }
}

/// The position of the arm, and the head in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// The cylinder.
    pub cylinder: u32,
    /// The head.
    pub head: u32,
}

/// The operation of the heads on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Reading.
    Read,
    /// Writing, after a longer settling time.
    Write,
}

/// A run of sectors with the times at which it passes under the heads.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// The sectors passed.
    pub run: Run,
    /// Time at which the first sector begins.
    pub begin: f64,
    /// Time at which the last sector ends.
    pub end: f64,
    /// Duration of one sector.
    pub sector: f64,
}

/// Fraction of a rotation within which a sector counts as just beginning; larger than the rounding
/// of times to nanoseconds.
const JUST_COME: f64 = 1e-6;

/// Milliseconds by which the spindle falls behind with every transferred sector: the rounding loss
/// of the reference simulator. It is negligible compared with a minute of a real spindle, but keeps
/// a replay of thousands of its requests in step.
const SLIP: f64 = 4.3e-7;

impl Media {
    /// Returns the arm and the spindle of `drive`.
    pub fn new(drive: &DriveFile, geometry: Geometry) -> Media {
        let cylinders = drive.zones.last().map_or(0, |zone| zone.last) as usize + 1;
        let mechanics = &drive.mechanics;
        Media {
            geometry,
            rotation: mechanics.rotation,
            rotations: 1.0 / mechanics.rotation,
            head_switch: mechanics.head_switch,
            write_settling: mechanics.write_settling,
            seek: seek_table(&mechanics.seek, cylinders),
            lag: 0.0,
        }
    }

    /// Returns the milliseconds to switch to another head of the same cylinder.
    pub fn head_switch(&self) -> f64 {
        self.head_switch
    }

    /// Returns the milliseconds until `arm` is over `run` and may begin.
    fn positioning(&self, arm: Arm, run: &Run, pass: Pass) -> f64 {
        if arm.cylinder == run.cylinder && arm.head == run.head {
            return 0.0;
        }
        let distance = arm.cylinder.abs_diff(run.cylinder) as usize;
        let switch = if arm.head == run.head { 0.0 } else { self.head_switch };
        let settling = if pass == Pass::Write { self.write_settling } else { 0.0 };
        (self.seek[distance].max(switch) + settling).max(0.0)
    }

    /// Moves the arm to `run` from `now` on and passes over it.
    pub fn pass(&self, now: f64, arm: &mut Arm, run: Run, pass: Pass) -> Passed {
        let there = now + self.positioning(*arm, &run, pass);
        *arm = run.arm();
        let turned = (there - self.lag) * self.rotations;
        let mut wait = run.angle - (turned - turned.floor());
        if wait < -JUST_COME {
            wait += 1.0;
        }
        let begin = there + wait.max(0.0) * self.rotation;
        let sector = run.sector * self.rotation;
        Passed { run, begin, end: begin + run.span as f64 * sector, sector }
    }

    /// Returns whether all `count` sectors from `sector` lie on the track under `arm`.
    pub fn is_on_track(&self, arm: Arm, sector: u64, count: u64) -> bool {
        let mut runs = self.geometry.runs(sector, count);
        runs.next().is_some_and(|run| run.arm() == arm) && runs.next().is_none()
    }

    /// Returns a delay in milliseconds that makes the arm miss a sector that was just to come.
    pub fn just_missed(&self) -> f64 {
        1e-4 * self.rotation
    }

    /// Returns the duration of one rotation in milliseconds.
    pub fn rotation(&self) -> f64 {
        self.rotation
    }

    /// Returns the duration in milliseconds of the fewest whole rotations that last at least
    /// `time`.
    pub fn rotations_over(&self, time: f64) -> f64 {
        (time * self.rotations).ceil().max(1.0) * self.rotation
    }

    /// Adds the slip of `sectors` transferred sectors.
    pub fn slip(&mut self, sectors: u64) {
        self.lag += sectors as f64 * SLIP;
    }
}

/// Computes seek times for every distance: linear between the measured points, constant after the
/// last.
fn seek_table(points: &[(u32, f64)], cylinders: usize) -> Vec<f64> {
    let mut table = Vec::with_capacity(cylinders);
    table.push(0.0);
    let mut points = points.iter().map(|(distance, time)| (*distance as usize, *time));
    let first = points.next().unwrap_or((1, 0.0));
    let (mut below, mut above) = (first, points.next());
    for distance in 1..cylinders {
        while let Some(next) = above
            && next.0 <= distance
        {
            (below, above) = (next, points.next());
        }
        table.push(match above {
            Some(next) if distance > below.0 => {
                let share = (distance - below.0) as f64 / (next.0 - below.0) as f64;
                below.1 + (next.1 - below.1) * share
            }
            _ => below.1,
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives::shipped;

    #[test]
    fn seek_times_lie_on_lines_between_the_points() {
        let table = seek_table(&[(1, 1.0), (2, 2.0), (6, 4.0)], 9);
        assert_eq!(table, [0.0, 1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 4.0, 4.0]);
        assert_eq!(seek_table(&[(3, 2.0)], 5), [0.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(seek_table(&[], 2), [0.0, 0.0]);
    }

    #[test]
    fn a_pass_waits_for_its_sector() {
        let file = shipped::named("barracuda").unwrap().unwrap();
        let media = Media::new(&file, Geometry::new(&file).unwrap());
        let mut arm = Arm { cylinder: 0, head: 0 };
        let run = |sector, count| media.geometry.runs(sector, count).next().unwrap();
        let rotation = 60_000.0 / 7_200.0;
        // Sector 93 is half a rotation behind the index, where the angle is zero at time zero.
        let passed = media.pass(0.0, &mut arm, run(93, 31), Pass::Read);
        assert!((passed.begin - rotation / 2.0).abs() < 1e-9);
        assert!((passed.end - rotation / 2.0 - rotation / 6.0).abs() < 1e-9);
        // The following sector comes at once, a missed one a rotation later.
        let next = media.pass(passed.end, &mut arm, run(124, 1), Pass::Read);
        assert!((next.begin - passed.end).abs() < 1e-9);
        let late = media.pass(passed.end + media.just_missed(), &mut arm, run(124, 1), Pass::Read);
        assert!((late.begin - passed.end - rotation).abs() < 1e-9);
        // For another cylinder, the arm must seek first.
        let before = arm;
        let far = media.pass(late.end, &mut arm, run(4_000_000, 1), Pass::Read);
        let seek = media.positioning(before, &far.run, Pass::Read);
        assert!(seek > 10.0 && far.begin >= late.end + seek);
        assert!(far.begin < late.end + seek + rotation);
        assert_eq!(arm, far.run.arm());
    }
}
