//! Data files of mechanical drives.
//!
//! A file is a JSON object of drives by name, each with its geometry, its mechanics and the
//! settings of its controller; `docs/research/models.md` describes the fields. Unknown fields are
//! ignored. A missing field that the model needs is an error, or an assumption that is listed in
//! [`DriveFile::notes`].
//!
//! Guarantees: for any file, the result is either a drive that can be simulated, or an error that
//! names the drive, the field and the expected value.

use serde_json::{Map, Value};

use crate::drives::mechanical::Geometry;
use crate::drives::mechanical::controller::{Controller, FastWrite, Overheads, ReadAhead};

/// A drive as its data file describes it.
#[derive(Clone, Debug)]
pub struct DriveFile {
    /// Maker and model.
    pub label: String,
    /// Number of addressable sectors.
    pub blocks: u64,
    /// Number of recording surfaces, which is the number of heads.
    pub surfaces: u32,
    /// Arm and spindle.
    pub mechanics: Mechanics,
    /// Numbering of sectors.
    pub layout: Layout,
    /// Zones, from the outermost inwards.
    pub zones: Vec<Zone>,
    /// The electronics.
    pub controller: Controller,
    /// Assumptions made for missing fields, in words.
    pub notes: Vec<String>,
}

/// Arm and spindle.
#[derive(Clone, Debug)]
pub struct Mechanics {
    /// Milliseconds of one rotation.
    pub rotation: f64,
    /// Milliseconds to switch to another head of the same cylinder.
    pub head_switch: f64,
    /// Milliseconds that a write waits longer than a read after a head movement; negative where
    /// extraction found a shorter wait.
    pub write_settling: f64,
    /// Seek curve: distances in cylinders and seek times in milliseconds, by ascending distance.
    pub seek: Vec<(u32, f64)>,
}

/// Numbering of sectors over tracks, and the places of the spare sectors.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The order of the surfaces within a cylinder.
    pub order: SurfaceOrder,
    /// The places of spare sectors.
    pub sparing: Sparing,
    /// Cylinders that share their spare sectors under [`Sparing::EndOfRange`].
    pub range: u32,
}

/// The order of the surfaces within a cylinder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurfaceOrder {
    /// From the first surface to the last on each cylinder.
    Same,
    /// Back and forth: each cylinder begins on the surface where the previous one ended; each zone
    /// begins on the first surface.
    AlternatingInZone,
    /// Back and forth over the whole drive: even cylinders upwards, odd ones downwards.
    Alternating,
}

/// The places of spare sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sparing {
    /// No spare sectors.
    None,
    /// Whole tracks at the end of each zone.
    TracksOfZone,
    /// At the end of each cylinder.
    EndOfCylinder {
        /// True if skipped sectors reduce the spare ones.
        slips_use_spares: bool,
    },
    /// At the end of each track.
    EndOfTrack,
    /// At the front of each cylinder.
    FrontOfCylinder {
        /// True if skipped sectors reduce the spare ones.
        slips_use_spares: bool,
    },
    /// At the end of each range of cylinders.
    EndOfRange,
    /// At the end of each zone.
    EndOfZone {
        /// True if skipped sectors reduce the spare ones.
        slips_use_spares: bool,
    },
}

/// Cylinders with the same number of sectors per track.
#[derive(Clone, Debug)]
pub struct Zone {
    /// The first cylinder.
    pub first: u32,
    /// The last cylinder.
    pub last: u32,
    /// Sectors per track.
    pub sectors: u32,
    /// Distance of the zone's first sector behind the index mark, in sectors.
    pub offset: f64,
    /// Reserved sectors at the front of the zone.
    pub kept: u64,
    /// Sectors by which a track begins later than the previous one on the same cylinder.
    pub track_skew: f64,
    /// Sectors by which a track begins later than the previous one on another cylinder.
    pub cylinder_skew: f64,
    /// Spare sectors (tracks under [`Sparing::TracksOfZone`]) per zone, cylinder, range or track.
    pub spares: u64,
    /// Physical sectors that are skipped, counted from the start of the zone.
    pub slips: Vec<u64>,
}

/// Error of a data file that is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl Refused {
    pub(crate) fn new(why: impl Into<String>) -> Refused {
        Refused(why.into())
    }
}

/// Returns the names of the drives in the data file `text`.
pub fn names(text: &str) -> Result<Vec<String>, Refused> {
    Ok(object(text)?.keys().cloned().collect())
}

/// Returns the drive `name` of the data file `text`.
pub fn read(text: &str, name: &str) -> Result<DriveFile, Refused> {
    let drives = object(text)?;
    let Some(drive) = drives.get(name) else {
        let known: Vec<&str> = drives.keys().map(String::as_str).collect();
        return Err(Refused(format!("it has no drive {name:?}, only {}", known.join(", "))));
    };
    let refused = |why: String| Refused(format!("drive {name:?}: {why}"));
    let fields = Fields::of(drive, "the drive").map_err(refused)?;
    fields.drive().map_err(refused)
}

fn object(text: &str) -> Result<Map<String, Value>, Refused> {
    match serde_json::from_str(text) {
        Ok(Value::Object(drives)) => Ok(drives),
        Ok(_) => Err(Refused("not a JSON object of drives by name".to_owned())),
        Err(error) => Err(Refused(format!("not JSON: {error}"))),
    }
}

/// An object of the file, with its name for error messages.
struct Fields<'a> {
    map: &'a Map<String, Value>,
    place: String,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, place: &str) -> Result<Fields<'a>, String> {
        match value {
            Value::Object(map) => Ok(Fields { map, place: place.to_owned() }),
            _ => Err(format!("{place} is not an object")),
        }
    }

    fn value(&self, key: &str) -> Result<&'a Value, String> {
        self.map.get(key).ok_or_else(|| format!("{} lacks {key:?}", self.place))
    }

    fn fields(&self, key: &str) -> Result<Fields<'a>, String> {
        Fields::of(self.value(key)?, &format!("{key:?}"))
    }

    fn list(&self, key: &str) -> Result<&'a [Value], String> {
        let list = self.value(key)?.as_array();
        list.map(Vec::as_slice).ok_or_else(|| format!("{key:?} of {} is not a list", self.place))
    }

    /// Returns a number from `min` to `max`.
    fn number(&self, key: &str, min: f64, max: f64) -> Result<f64, String> {
        let value = self.value(key)?;
        value.as_f64().filter(|number| (min..=max).contains(number)).ok_or_else(|| {
            format!("{key:?} of {} is {value}, not a number from {min} to {max}", self.place)
        })
    }

    /// Returns a whole number from `min` to `max`.
    fn whole(&self, key: &str, min: u32, max: u32) -> Result<u32, String> {
        let number = self.number(key, f64::from(min), f64::from(max))?;
        match number.fract() == 0.0 {
            true => Ok(number as u32),
            false => Err(format!("{key:?} of {} is {number}, not a whole number", self.place)),
        }
    }

    fn time(&self, key: &str) -> Result<f64, String> {
        self.number(key, 0.0, 10_000.0)
    }

    /// Returns a flag: zero is false, any other value is true. Some fields have more levels than
    /// the two that the model distinguishes.
    fn flag(&self, key: &str) -> Result<bool, String> {
        Ok(self.whole(key, 0, 9)? > 0)
    }

    fn drive(&self) -> Result<DriveFile, String> {
        let mut notes = Vec::new();
        if self.whole("block_bytes", 1, 65_536)? != 512 {
            return Err("\"block_bytes\" must be 512".to_owned());
        }
        let label = self.value("label")?.as_str().unwrap_or_default().to_owned();
        let zones = self.zones()?;
        let last = zones.last().map_or(0, |zone| zone.last);
        let cylinders = self.whole("cylinders", 1, MAX_CYLINDERS)?;
        if cylinders <= last {
            notes.push(format!(
                "\"cylinders\" is {cylinders}, but a zone ends at cylinder {last}: taken from the \
                 zones"
            ));
        }
        let mechanics = self.fields("mechanics")?.mechanics(self, last + 1, &mut notes)?;
        let mut drive = DriveFile {
            label,
            blocks: u64::from(self.whole("block_count", 1, u32::MAX)?),
            surfaces: self.whole("surfaces", 1, 256)?,
            mechanics,
            layout: self.fields("layout")?.layout()?,
            zones,
            controller: self.fields("controller_and_cache")?.controller(&mut notes)?,
            notes,
        };
        let room = Geometry::room(&drive).map_err(|why| why.to_string())?;
        if room < drive.blocks {
            drive.notes.push(format!(
                "beside spare and skipped sectors the zones have room for {room} sectors, fewer \
                 than the {} of \"block_count\": assuming that there are none",
                drive.blocks
            ));
            for zone in &mut drive.zones {
                (zone.spares, zone.slips) = (0, Vec::new());
            }
            // A drive that still has too little room is rejected here.
            Geometry::new(&drive).map_err(|why| why.to_string())?;
        }
        Ok(drive)
    }

    fn mechanics(
        &self,
        drive: &Fields<'_>,
        cylinders: u32,
        notes: &mut Vec<String>,
    ) -> Result<Mechanics, String> {
        let seek = match drive.knows("seek_curve_cyl_ms") {
            true => drive.seek()?,
            false => self.seek_substitute(cylinders, notes)?,
        };
        Ok(Mechanics {
            rotation: 60_000.0 / self.number("Rotation speed (in rpms)", 60.0, 1_000_000.0)?,
            head_switch: self.time("Head switch time")?,
            write_settling: self.number("Add. write settling delay", -10_000.0, 10_000.0)?,
            seek,
        })
    }

    /// Returns whether a field has a value.
    fn knows(&self, key: &str) -> bool {
        let says_nothing = |value: &Value| {
            value.is_null() || value.as_array().is_some_and(|values| values.is_empty())
        };
        self.map.get(key).is_some_and(|value| !says_nothing(value))
    }

    /// Returns a curve for a drive whose seek times were not measured. It is Lee's,
    /// `a √(d - 1) + b (d - 1) + c`, through the shortest, the longest and the mean seek, where the
    /// mean is the seek over a third of the cylinders. Missing values are assumed.
    fn seek_substitute(
        &self,
        cylinders: u32,
        notes: &mut Vec<String>,
    ) -> Result<Vec<(u32, f64)>, String> {
        let mut assumed = Vec::new();
        let mut stated = |key: &str, otherwise: f64| match self.knows(key) {
            true => self.time(key),
            false => {
                assumed.push(format!("{key:?} of {otherwise:.1} ms"));
                Ok(otherwise)
            }
        };
        let shortest = stated("Single cylinder seek time", SHORTEST_SEEK)?;
        let longest = stated("Full strobe seek time", LONGEST_SEEK.max(shortest))?;
        let mean = shortest + MEAN_SEEK * (longest - shortest);
        let mean = stated("Average seek time", mean)?;
        notes.push(format!(
            "\"seek_curve_cyl_ms\" is unknown: a curve through the shortest, the mean and the \
             longest seek is taken{}{}",
            if assumed.is_empty() { "" } else { ", with an assumed " },
            assumed.join(" and "),
        ));
        let last = cylinders.saturating_sub(1).max(1);
        let root =
            (-10.0 * shortest + 15.0 * mean - 5.0 * longest) / (3.0 * f64::from(last).sqrt());
        let slope = (7.0 * shortest - 15.0 * mean + 8.0 * longest) / (3.0 * f64::from(last));
        let time = |distance: u32| {
            let further = f64::from(distance - 1);
            (root * further.sqrt() + slope * further + shortest).max(0.0)
        };
        let mut points: Vec<u32> = vec![1];
        while let Some(point) = points.last().filter(|point| **point < last) {
            points.push((point + 1 + point / 8).min(last));
        }
        Ok(points.into_iter().map(|distance| (distance, time(distance))).collect())
    }

    fn seek(&self) -> Result<Vec<(u32, f64)>, String> {
        let key = "seek_curve_cyl_ms";
        let mut points: Vec<(u32, f64)> = Vec::new();
        for (index, point) in self.list(key)?.iter().enumerate() {
            let pair = point.as_array().map(Vec::as_slice);
            let numbers = match pair {
                Some([distance, time]) => distance.as_u64().zip(time.as_f64()),
                _ => None,
            };
            let above = points.last().map_or(0, |(distance, _)| *distance);
            match numbers {
                Some((distance, time))
                    if distance > u64::from(above)
                        && distance <= u64::from(u32::MAX)
                        && (0.0..10_000.0).contains(&time) =>
                {
                    points.push((distance as u32, time));
                }
                _ => {
                    return Err(format!(
                        "point {} of {key:?} is {point}, not [cylinders, milliseconds] with more \
                         than {above} cylinders",
                        index + 1
                    ));
                }
            }
        }
        Ok(points)
    }

    fn layout(&self) -> Result<Layout, String> {
        let order = match self.whole("LBN-to-PBN mapping scheme", 0, 2)? {
            0 => SurfaceOrder::Same,
            1 => SurfaceOrder::AlternatingInZone,
            _ => SurfaceOrder::Alternating,
        };
        let sparing = match self.whole("Sparing scheme used", 0, 10)? {
            // Spare sectors at the end of the drive follow all addressable ones.
            0 | 7 => Sparing::None,
            1 => Sparing::TracksOfZone,
            2 => Sparing::EndOfCylinder { slips_use_spares: true },
            3 => Sparing::EndOfTrack,
            4 => Sparing::EndOfCylinder { slips_use_spares: false },
            5 => Sparing::FrontOfCylinder { slips_use_spares: true },
            6 => Sparing::FrontOfCylinder { slips_use_spares: false },
            8 => Sparing::EndOfRange,
            9 => Sparing::EndOfZone { slips_use_spares: true },
            _ => Sparing::EndOfZone { slips_use_spares: false },
        };
        Ok(Layout { order, sparing, range: self.whole("Rangesize for sparing", 0, u32::MAX)? })
    }

    fn zones(&self) -> Result<Vec<Zone>, String> {
        let slips = match self.map.contains_key("slips_by_zone") {
            true => self.list("slips_by_zone")?,
            false => &[],
        };
        let mut zones: Vec<Zone> = Vec::new();
        for (index, zone) in self.list("zones")?.iter().enumerate() {
            let place = format!("zone {}", index + 1);
            let fields = Fields::of(zone, &place)?;
            let zone = fields.zone(slips.get(index))?;
            let begun = zones.last().map_or(0, |before: &Zone| before.last + 1);
            if zone.first < begun || zone.last < zone.first {
                return Err(format!(
                    "{place} has the cylinders {} to {}, but {begun} is the first that is free",
                    zone.first, zone.last
                ));
            }
            zones.push(zone);
        }
        if zones.is_empty() {
            return Err("\"zones\" is empty".to_owned());
        }
        Ok(zones)
    }

    fn zone(&self, slips: Option<&Value>) -> Result<Zone, String> {
        let mut skipped: Vec<u64> = Vec::new();
        for slip in slips.and_then(Value::as_array).into_iter().flatten() {
            let sector = slip.as_u64().filter(|sector| *sector <= u64::from(u32::MAX));
            let why = || format!("a slip of {} is {slip}, not a sector", self.place);
            skipped.push(sector.ok_or_else(why)?);
        }
        skipped.sort_unstable();
        skipped.dedup();
        let skew = |key| self.number(key, -1_000_000.0, 1_000_000.0);
        Ok(Zone {
            first: self.whole("First cylinder number", 0, MAX_CYLINDERS)?,
            last: self.whole("Last cylinder number", 0, MAX_CYLINDERS)?,
            sectors: self.whole("Blocks per track", 1, 1_000_000)?,
            offset: skew("Offset of first block")?,
            kept: u64::from(self.whole("Empty space at zone front", 0, u32::MAX)?),
            track_skew: skew("Skew for track switch")?,
            cylinder_skew: skew("Skew for cylinder switch")?,
            spares: u64::from(self.whole("Number of spares", 0, u32::MAX)?),
            slips: skipped,
        })
    }

    fn controller(&self, notes: &mut Vec<String>) -> Result<Controller, String> {
        let scale = self.number("Time scale for overheads", 0.0, 1_000.0)?;
        let overhead = |key: &str| Ok::<f64, String>(self.time(key)? * scale);
        let pair = |what: &str| -> Result<[f64; 2], String> {
            let after = |kind| overhead(&format!("{what} over. after {kind}"));
            Ok([after("read")?, after("write")?])
        };
        let mut bus = self.time("Bulk sector transfer time")?;
        if bus == 0.0 {
            bus = HOST_BUS;
            notes.push(format!(
                "\"Bulk sector transfer time\" is 0, the host's bus decides: {HOST_BUS} ms per \
                 sector assumed"
            ));
        }
        let segment = self.whole("Segment size (in blks)", 1, 1 << 30)?;
        let read_ahead = match self.whole("Buffer continuous read", 0, 9)? {
            0 => ReadAhead::None,
            2 | 4 => ReadAhead::Track,
            _ => ReadAhead::Segment,
        };
        let read_ahead_most = u64::from(self.whole("Maximum read-ahead (blks)", 0, 1 << 30)?);
        let read_ahead_over_requested = self.flag("Read-ahead over requested")?;
        let no_room = !read_ahead_over_requested && read_ahead_most >= u64::from(segment);
        let read_ahead_behind_reads = read_ahead != ReadAhead::None && no_room;
        if read_ahead_behind_reads {
            notes.push(format!(
                "\"Maximum read-ahead (blks)\" of {read_ahead_most} takes a whole segment, which \
                 \"Read-ahead over requested\" does not allow: assuming a drive that reads ahead \
                 only after a read that continues the previous one"
            ));
        }
        Ok(Controller {
            overheads: Overheads {
                request: overhead("Per-request overhead time")?,
                read_hit: pair("Read hit")?,
                read_miss: pair("Read miss")?,
                write_hit: pair("Write hit")?,
                write_miss: pair("Write miss")?,
                read_completion: overhead("Read completion overhead")?,
                write_completion: overhead("Write completion overhead")?,
            },
            bus,
            caching: self.flag("Enable caching in buffer")?,
            segments: self.whole("Number of buffer segments", 1, 65_536)?,
            segment: u64::from(segment),
            read_watermark: self.number("High (read) water mark", 0.0, 1.0)?,
            watermark_of_request: self.flag("Set watermark by reqsize")?,
            read_ahead,
            read_ahead_behind_reads,
            read_ahead_most,
            read_ahead_over_requested,
            read_ahead_on_hit: self.flag("Read-ahead on idle hit")?,
            stop_in_sector: self.flag("Stop prefetch in sector")?,
            fast_write: match self.whole("Fast write level", 0, 9)? {
                0 => FastWrite::Never,
                _ => FastWrite::Always,
            },
            combine_writes: self.flag("Combine seq writes")?,
            read_written: self.flag("Allow read hits on write data")?,
        })
    }
}

/// Upper bound on cylinders, which no drive exceeds; it limits the size of the seek table.
const MAX_CYLINDERS: u32 = 1 << 22;

/// Milliseconds per sector over the host's bus, where the drive's file leaves it open: 3.52 MB/s,
/// as measurements of such drives show.
const HOST_BUS: f64 = 0.1455;

/// Milliseconds of the shortest and the longest seek of a drive whose file lacks them: those of the
/// validated drives lie between 0.9 and 1.7, and between 10 and 17.
const SHORTEST_SEEK: f64 = 1.5;
const LONGEST_SEEK: f64 = 15.0;

/// Position of the mean seek between the shortest (0) and the longest (1): 0.46 to 0.50 on the
/// validated drives.
const MEAN_SEEK: f64 = 0.48;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives::shipped;

    /// Returns the error for the barracuda's file with one field changed.
    fn refused(path: &[&str], value: Value) -> String {
        changed(path, value).unwrap_err().to_string()
    }

    fn changed(path: &[&str], value: Value) -> Result<DriveFile, Refused> {
        let text = shipped::text("barracuda").unwrap();
        let mut file: Value = serde_json::from_str(text).unwrap();
        let mut field = &mut file["barracuda"];
        for key in path {
            field = match key.parse::<usize>() {
                Ok(index) => &mut field[index],
                Err(_) => &mut field[*key],
            };
        }
        *field = value;
        read(&file.to_string(), "barracuda")
    }

    #[test]
    fn contradictions_that_can_be_resolved_are_noted() {
        let file = changed(&["cylinders"], Value::from(5_000)).unwrap();
        assert!(file.notes[0].contains("a zone ends at cylinder 5171"), "{:?}", file.notes);
        // More sectors than fit beside the spare ones, but fewer than there are in total.
        let file = changed(&["block_count"], Value::from(4_250_000)).unwrap();
        assert!(file.notes[0].contains("room for 4217582 sectors"), "{:?}", file.notes);
        assert!(Geometry::room(&file).unwrap() >= 4_250_000);
    }

    #[test]
    fn missing_measurements_have_substitutes() {
        let measured = shipped::named("barracuda").unwrap().unwrap().mechanics.seek;
        for nothing in [Value::Null, Value::Array(Vec::new())] {
            let file = changed(&["seek_curve_cyl_ms"], nothing).unwrap();
            assert!(file.notes[0].contains("\"seek_curve_cyl_ms\" is unknown"), "{:?}", file.notes);
            let curve = &file.mechanics.seek;
            assert!(curve.is_sorted_by(|(a, x), (b, y)| a < b && x <= y), "{curve:?}");
            let last = file.zones.last().unwrap().last;
            assert_eq!(curve.last().unwrap().0, last);
            for (ours, real) in
                [(curve[0], measured[0]), (curve[curve.len() - 1], *measured.last().unwrap())]
            {
                assert!((ours.1 / real.1 - 1.0).abs() < 0.01, "{ours:?} {real:?}");
            }
        }
        // Extraction yields such values.
        let file = changed(&["mechanics", "Add. write settling delay"], Value::from(-0.3)).unwrap();
        assert_eq!(file.mechanics.write_settling, -0.3);
        assert!(file.notes.is_empty());
    }

    #[test]
    fn a_read_ahead_that_has_no_room_waits_for_a_second_read() {
        let with = |most: u64| {
            let text = shipped::text("atlas10k").unwrap();
            let mut file: Value = serde_json::from_str(text).unwrap();
            let field = &mut file["atlas10k"]["controller_and_cache"]["Maximum read-ahead (blks)"];
            *field = Value::from(most);
            read(&file.to_string(), "atlas10k").unwrap()
        };
        assert!(!with(354).controller.read_ahead_behind_reads && with(354).notes.is_empty());
        let full = with(374);
        assert!(full.controller.read_ahead_behind_reads);
        assert!(full.notes[0].contains("takes a whole segment"), "{:?}", full.notes);
    }

    #[test]
    fn problems_name_their_field() {
        let number = |number: f64| Value::from(number);
        let why = refused(&["mechanics", "Head switch time"], number(-1.0));
        assert_eq!(
            why,
            "drive \"barracuda\": \"Head switch time\" of \"mechanics\" is -1.0, not a number \
             from 0 to 10000"
        );
        let why = refused(&["mechanics", "Rotation speed (in rpms)"], Value::Null);
        assert!(why.contains("\"Rotation speed (in rpms)\""), "{why}");
        let why = refused(&["zones", "1", "Blocks per track"], number(12.5));
        assert!(why.contains("\"Blocks per track\" of zone 2 is 12.5, not a whole"), "{why}");
        let why = refused(&["zones", "1", "First cylinder number"], number(3.0));
        assert!(why.contains("zone 2 has the cylinders 3 to 2352, but 1128 is the first"), "{why}");
        let why = refused(&["seek_curve_cyl_ms", "2"], Value::from(vec![2, 3]));
        assert!(why.contains("point 3 of \"seek_curve_cyl_ms\" is [2,3]"), "{why}");
        let why = refused(&["layout", "Sparing scheme used"], number(11.0));
        assert!(why.contains("\"Sparing scheme used\""), "{why}");
        let why = refused(&["block_count"], number(4_300_000.0));
        assert!(why.contains("\"block_count\""), "{why}");
        assert!(refused(&["zones"], Value::from("none")).contains("\"zones\""));
        assert!(refused(&["block_bytes"], number(520.0)).contains("512"));
    }

    #[test]
    fn files_that_describe_no_drives_are_rejected() {
        assert!(read("{\n,", "x").unwrap_err().to_string().contains("line 2"));
        assert!(read("[]", "x").unwrap_err().to_string().contains("not a JSON object"));
        let text = shipped::text("barracuda").unwrap();
        let why = read(text, "x").unwrap_err().to_string();
        assert_eq!(why, "it has no drive \"x\", only barracuda");
        assert_eq!(names(text).unwrap(), ["barracuda"]);
    }

    #[test]
    fn a_bus_that_is_not_stated_is_an_assumption() {
        let file = shipped::named("hp_c3323a").unwrap().unwrap();
        assert_eq!(file.controller.bus, HOST_BUS);
        assert!(file.notes[0].contains("Bulk sector transfer time"), "{:?}", file.notes);
        assert!(shipped::named("barracuda").unwrap().unwrap().notes.is_empty());
    }
}
