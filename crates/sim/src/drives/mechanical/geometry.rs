//! Places of sectors: cylinder, head, and angle behind the index mark.
//!
//! A zone is a series of *regions* that each end (or begin) with spare sectors; skipped sectors
//! shift the ones behind them. Successive tracks of a zone are skewed, so that a transfer continues
//! after the switch without losing a rotation.
//!
//! Guarantees: every sector below [`Geometry::sectors`] has its own place, and successive sectors
//! lie at ascending places of a zone.

use crate::drives::drive_file::{DriveFile, Refused, Sparing, SurfaceOrder, Zone};

/// Map from sectors to places.
#[derive(Clone, Debug)]
pub struct Geometry {
    zones: Vec<Mapped>,
    sectors: u64,
    surfaces: u64,
    order: SurfaceOrder,
}

#[derive(Clone, Debug)]
struct Mapped {
    begin: u64,
    cylinder: u64,
    /// Sectors per track.
    track: u64,
    /// Fraction of a rotation that one sector takes.
    sector: f64,
    /// Angle of the first sector, and skews by track and by cylinder, in rotations.
    offset: f64,
    track_skew: f64,
    cylinder_skew: f64,
    /// Physical sectors before the first region.
    kept: u64,
    /// Physical sectors per region, those that carry data, and the spare ones in front.
    region: u64,
    data: u64,
    front: u64,
    /// True if skipped sectors reduce the spare ones of their region.
    slips_use_spares: bool,
    slips: Vec<u64>,
}

/// The part of a request that lies on one track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// The cylinder.
    pub cylinder: u32,
    /// The surface.
    pub head: u32,
    /// Angle of the first sector, in rotations.
    pub angle: f64,
    /// Number of requested sectors in the run.
    pub sectors: u64,
    /// Sectors that pass under the head from the first to the last, including skipped ones.
    pub span: u64,
    /// Fraction of a rotation that one sector takes.
    pub sector: f64,
}

impl Geometry {
    /// Returns the map of `drive`, or the reason why its zones are invalid.
    pub fn new(drive: &DriveFile) -> Result<Geometry, Refused> {
        let (zones, sectors) = map(drive)?;
        if sectors < drive.blocks {
            return Err(Refused::new(format!(
                "the zones have room for {sectors} sectors, fewer than the {} of \"block_count\"",
                drive.blocks
            )));
        }
        let surfaces = u64::from(drive.surfaces);
        Ok(Geometry { zones, sectors, surfaces, order: drive.layout.order })
    }

    /// Returns the number of sectors in the zones of `drive`, or the reason why they are invalid.
    pub fn room(drive: &DriveFile) -> Result<u64, Refused> {
        Ok(map(drive)?.1)
    }

    /// Returns the number of sectors in the zones, a few more than the drive's nominal ones.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Splits the `count` sectors from `sector` on into runs, track by track.
    pub fn runs(&self, sector: u64, count: u64) -> Runs<'_> {
        Runs { geometry: self, sector, end: sector + count }
    }

    /// Returns the part of the sectors `sector` to `end` that lies on the first one's track.
    fn run(&self, sector: u64, end: u64) -> Run {
        let index = self.zones.partition_point(|zone| zone.begin <= sector) - 1;
        let zone = &self.zones[index];
        let zone_end = self.zones.get(index + 1).map_or(u64::MAX, |next| next.begin);
        let end = end.min(zone_end);
        let first = zone.physical(sector);
        let track = first / zone.track;
        let track_end = (track + 1) * zone.track;
        let mut last = zone.physical(end - 1);
        let mut sectors = end - sector;
        if last >= track_end {
            sectors = zone.first_not_before(track_end, sector, end) - sector;
            last = zone.physical(sector + sectors - 1);
        }
        let cylinder = track / self.surfaces;
        let surface = track % self.surfaces;
        let downwards = match self.order {
            SurfaceOrder::Same => false,
            SurfaceOrder::AlternatingInZone => cylinder % 2 == 1,
            SurfaceOrder::Alternating => (zone.cylinder + cylinder) % 2 == 1,
        };
        let head = if downwards { self.surfaces - 1 - surface } else { surface };
        Run {
            cylinder: (zone.cylinder + cylinder) as u32,
            head: head as u32,
            angle: zone.angle(first % zone.track, track, cylinder),
            sectors,
            span: last - first + 1,
            sector: zone.sector,
        }
    }
}

fn map(drive: &DriveFile) -> Result<(Vec<Mapped>, u64), Refused> {
    let mut zones: Vec<Mapped> = Vec::with_capacity(drive.zones.len());
    let mut begin = 0;
    for (index, zone) in drive.zones.iter().enumerate() {
        let (mapped, len) = Mapped::new(drive, zone, begin)
            .map_err(|why| Refused::new(format!("zone {}: {why}", index + 1)))?;
        zones.push(mapped);
        begin += len;
    }
    Ok((zones, begin))
}

/// Iterator of [`Geometry::runs`].
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    geometry: &'a Geometry,
    sector: u64,
    end: u64,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.sector >= self.end {
            return None;
        }
        let run = self.geometry.run(self.sector, self.end);
        self.sector += run.sectors;
        Some(run)
    }
}

impl Mapped {
    /// Returns the map of `zone`, whose first sector is `begin`, and its number of sectors.
    fn new(drive: &DriveFile, zone: &Zone, begin: u64) -> Result<(Mapped, u64), String> {
        let track = u64::from(zone.sectors);
        let cylinder = track * u64::from(drive.surfaces);
        let whole = cylinder * u64::from(zone.last - zone.first + 1);
        let raw = whole
            .checked_sub(zone.kept)
            .ok_or_else(|| format!("{} sectors kept of {whole}", zone.kept))?;
        let (region, spare, front, slips_use_spares) = match drive.layout.sparing {
            Sparing::None => (raw, 0, 0, false),
            Sparing::TracksOfZone => (raw, zone.spares * track, 0, false),
            Sparing::EndOfTrack => (track, zone.spares, 0, true),
            Sparing::EndOfCylinder { slips_use_spares } => {
                (cylinder, zone.spares, 0, slips_use_spares)
            }
            Sparing::FrontOfCylinder { slips_use_spares } => {
                (cylinder, zone.spares, zone.spares, slips_use_spares)
            }
            Sparing::EndOfRange if drive.layout.range == 0 => {
                return Err("spares by range, but \"Rangesize for sparing\" is 0".to_owned());
            }
            Sparing::EndOfRange => (cylinder * u64::from(drive.layout.range), zone.spares, 0, true),
            Sparing::EndOfZone { slips_use_spares } => (raw, zone.spares, 0, slips_use_spares),
        };
        let data = region.checked_sub(spare).filter(|data| *data > 0).ok_or_else(|| {
            format!("{spare} spare sectors leave nothing of the {region} that share them")
        })?;
        // A region with more skipped than spare sectors shifts everything behind it.
        let region_of = |slip: &u64| slip.saturating_sub(zone.kept) / region;
        let mut by_region = zone.slips.chunk_by(|one, other| region_of(one) == region_of(other));
        let slips_use_spares =
            slips_use_spares && by_region.all(|slips| slips.len() as u64 <= spare);
        let share = f64::from(zone.sectors);
        // If they shift all sectors behind them, count them in data sectors.
        let counted = |slip: &u64| match slips_use_spares {
            true => *slip,
            false => {
                let behind = slip.saturating_sub(zone.kept);
                behind / region * data + (behind % region).saturating_sub(front).min(data)
            }
        };
        let slips = zone.slips.iter().map(counted).collect();
        let mapped = Mapped {
            begin,
            cylinder: u64::from(zone.first),
            track,
            sector: 1.0 / share,
            offset: zone.offset / share,
            track_skew: zone.track_skew / share,
            cylinder_skew: zone.cylinder_skew / share,
            kept: zone.kept,
            region,
            data,
            front,
            slips_use_spares,
            slips,
        };
        let rest = (raw % region).saturating_sub(spare);
        let mut len = raw / region * data + rest;
        if !mapped.slips_use_spares {
            len = len.saturating_sub(mapped.slips.len() as u64);
        }
        Ok((mapped, len))
    }

    /// Returns the angle of the sector at `index` of a track; `track` and `cylinder` count from the
    /// start of the zone.
    fn angle(&self, index: u64, track: u64, cylinder: u64) -> f64 {
        let skew =
            cylinder as f64 * self.cylinder_skew + (track - cylinder) as f64 * self.track_skew;
        let angle = self.offset + index as f64 * self.sector + skew;
        angle - angle.floor()
    }

    /// Returns the physical sector of the zone that carries `sector`.
    fn physical(&self, sector: u64) -> u64 {
        let inside = sector - self.begin;
        if self.slips.is_empty() {
            return self.place(inside);
        }
        if !self.slips_use_spares {
            return self.place(pushed(inside, &self.slips));
        }
        let region = self.kept + inside / self.data * self.region;
        let of_region = self.slips.partition_point(|slip| *slip < region);
        pushed(self.place(inside), &self.slips[of_region..])
    }

    /// Returns the physical sector of the `index`-th data sector, ignoring skipped ones.
    fn place(&self, index: u64) -> u64 {
        self.kept + index / self.data * self.region + self.front + index % self.data
    }

    /// Returns the first sector from `low` to `high` whose physical sector is at or after `place`.
    fn first_not_before(&self, place: u64, mut low: u64, mut high: u64) -> u64 {
        // Shortcut for the case without spare or skipped sectors in between.
        let guess = low + (place - self.physical(low));
        if guess < high && guess > low && self.physical(guess) == place {
            if self.physical(guess - 1) + 1 == place {
                return guess;
            }
            high = guess;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.physical(middle) < place {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// Returns `place` shifted by the skipped sectors up to it.
fn pushed(mut place: u64, slips: &[u64]) -> u64 {
    for slip in slips {
        if *slip > place {
            break;
        }
        place += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::drives::shipped;

    fn shipped(name: &str) -> DriveFile {
        shipped::named(name).unwrap().unwrap()
    }

    fn run_of(geometry: &Geometry, sector: u64) -> Run {
        geometry.runs(sector, 1).next().unwrap()
    }

    /// Returns a drive of two small zones under `sparing`.
    fn small(sparing: Sparing, order: SurfaceOrder) -> DriveFile {
        let mut file = shipped("atlas10k");
        let zone = |first, last, sectors, slips: &[u64]| Zone {
            first,
            last,
            sectors,
            offset: 3.0,
            kept: 0,
            track_skew: 2.0,
            cylinder_skew: 5.0,
            spares: 2,
            slips: slips.to_vec(),
        };
        file.surfaces = 3;
        file.zones = vec![zone(0, 6, 20, &[4, 5, 77, 201]), zone(8, 11, 16, &[])];
        file.layout.sparing = sparing;
        file.layout.order = order;
        file.layout.range = 3;
        file.blocks = 1;
        file
    }

    const SPARINGS: [Sparing; 10] = [
        Sparing::None,
        Sparing::TracksOfZone,
        Sparing::EndOfCylinder { slips_use_spares: true },
        Sparing::EndOfCylinder { slips_use_spares: false },
        Sparing::EndOfTrack,
        Sparing::FrontOfCylinder { slips_use_spares: true },
        Sparing::FrontOfCylinder { slips_use_spares: false },
        Sparing::EndOfRange,
        Sparing::EndOfZone { slips_use_spares: true },
        Sparing::EndOfZone { slips_use_spares: false },
    ];

    #[test]
    fn every_sector_has_its_own_place() {
        for sparing in SPARINGS {
            for order in
                [SurfaceOrder::Same, SurfaceOrder::AlternatingInZone, SurfaceOrder::Alternating]
            {
                let geometry = Geometry::new(&small(sparing, order)).unwrap();
                let mut places = BTreeSet::new();
                for sector in 0..geometry.sectors() {
                    let run = run_of(&geometry, sector);
                    assert!((0.0..1.0).contains(&run.angle));
                    let slot = (run.angle / run.sector).round() as u64;
                    let place = (run.cylinder, run.head, slot);
                    assert!(places.insert(place), "{sparing:?} {order:?} {sector} at {place:?}");
                }
                // 420 and 192 sectors in total, less at most 3 tracks of spare ones and 4 slips.
                assert!((450..=612).contains(&geometry.sectors()), "{sparing:?}");
            }
        }
    }

    #[test]
    fn runs_say_the_same_as_single_sectors() {
        for sparing in SPARINGS {
            let file = small(sparing, SurfaceOrder::AlternatingInZone);
            let geometry = Geometry::new(&file).unwrap();
            let all = geometry.sectors();
            for (begin, count) in [(0, all), (1, all - 1), (37, 90), (all - 70, 70), (199, 1)] {
                let mut sector = begin;
                for run in geometry.runs(begin, count) {
                    assert!(run.sectors > 0 && run.span >= run.sectors);
                    for index in 0..run.sectors {
                        let single = run_of(&geometry, sector + index);
                        assert_eq!((single.cylinder, single.head), (run.cylinder, run.head));
                        let ahead = (single.angle - run.angle).rem_euclid(1.0) / run.sector;
                        let ahead = ahead.round() as u64;
                        assert!((index..run.span).contains(&ahead), "{sparing:?} {sector}");
                        assert!(index + 1 < run.sectors || ahead + 1 == run.span);
                    }
                    sector += run.sectors;
                }
                assert_eq!(sector, begin + count, "{sparing:?}");
            }
        }
    }

    #[test]
    fn the_tracks_of_a_validated_drive() {
        let geometry = Geometry::new(&shipped("atlas10k")).unwrap();
        let place = |sector| {
            let run = run_of(&geometry, sector);
            (run.cylinder, run.head, (run.angle * 334.0).round() as u64)
        };
        assert_eq!(place(0), (0, 0, 0));
        assert_eq!(place(333), (0, 0, 333));
        assert_eq!(place(334), (0, 1, 63));
        // The next cylinder begins on the surface where this one ends.
        assert_eq!(place(6 * 334 - 1), (0, 5, (5 * 63 + 333) % 334));
        assert_eq!(place(6 * 334), (1, 5, (5 * 63 + 113) % 334));
        // Sector 55,017 of the zone is skipped.
        let spans = |sector: u64| geometry.runs(sector, 2).map(|run| run.span).sum::<u64>();
        assert_eq!((spans(55_015), spans(55_016), spans(55_017)), (2, 3, 2));
        assert!(geometry.sectors() >= 17_938_986);
    }

    #[test]
    fn zones_that_make_no_drive() {
        let refused = |change: fn(&mut DriveFile)| {
            let mut file = shipped("barracuda");
            change(&mut file);
            Geometry::new(&file).unwrap_err().to_string()
        };
        assert!(refused(|file| file.blocks = 5_000_000).contains("\"block_count\""));
        assert!(refused(|file| file.zones[2].spares = 10_000).starts_with("zone 3: 10000 spare"));
        assert!(refused(|file| file.layout.range = 0).contains("\"Rangesize for sparing\""));
        assert!(refused(|file| file.zones[0].kept = 1 << 40).contains("sectors kept"));
    }
}
