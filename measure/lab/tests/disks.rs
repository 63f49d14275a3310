//! Mechanical drives compared with a reference simulator, request by request, and with measurements
//! of real drives. `tests/disks/README.md` gives the source of the data.

#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::path::{Path, PathBuf};

use lab::disks::compare::Workload;
use lab::disks::replay::{Distribution, Served, read_stream, replay};
use sim::drives::Drive;
use sim::drives::mechanical::{Config, MechanicalDrive};
use sim::drives::shipped;

fn drive(name: &str, config: Config) -> MechanicalDrive {
    MechanicalDrive::new(&shipped::named(name).unwrap().unwrap(), config).unwrap()
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disks").join(name)
}

/// Returns our times for a file's requests, and the file's times.
fn beside(drive: &mut MechanicalDrive, file: &str) -> (Vec<f64>, Vec<f64>) {
    let packed = std::fs::read(data(file)).unwrap();
    let steps = read_stream(packed.as_slice(), drive.capacity()).unwrap();
    let ours = replay(drive, steps).map(|served| served.response_ms()).collect();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    let csv = file.ends_with(".csv.gz");
    let between = if csv { ',' } else { ' ' };
    let unit = if csv { 1.0 } else { 1e-3 };
    let lines = text.lines().skip(usize::from(csv));
    let theirs =
        lines.map(|line| line.split(between).nth(4).unwrap().parse::<f64>().unwrap() * unit);
    (ours, theirs.collect())
}

/// Nearly every request takes the same time as in the reference, to a few microseconds.
#[test]
fn request_by_request() {
    let mut files = 0;
    for entry in std::fs::read_dir(data("")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(stem) = file.strip_suffix(".csv.gz") else { continue };
        let [name, config, _] = stem.split('.').collect::<Vec<_>>()[..] else { panic!("{file}") };
        let mut drive = drive(name, Config::named(config).unwrap());
        let (ours, theirs) = beside(&mut drive, &file);
        assert_eq!(ours.len(), 300, "{file}");
        // Where a sector was just missed or just caught, the reference's rounding decides.
        let pairs = ours.iter().zip(&theirs);
        let off: Vec<usize> = pairs
            .enumerate()
            .filter(|(_, (ours, theirs))| (**ours - **theirs).abs() > 0.03)
            .map(|(index, _)| index)
            .collect();
        assert!(off.len() <= 12, "{file}: {} requests are off: {off:?}", off.len());
        let (ours, theirs) = (Distribution::of(ours).unwrap(), Distribution::of(theirs).unwrap());
        let mean = (ours.mean - theirs.mean).abs() / theirs.mean;
        assert!(mean < 0.005, "{file}: mean {} beside {}", ours.mean, theirs.mean);
        files += 1;
    }
    assert_eq!(files, 18);
}

/// Sequential runs, in which skews, overheads, read-ahead and write-behind decide every request:
/// reference means, medians and 99th percentiles of 4,000 requests.
#[test]
fn sequential_runs() {
    let rows = [
        ("atlas10k", "mech", "sw64k", 8.7683, 8.2788, 10.3039),
        ("atlas10k", "shipped", "sr64k", 12.8560, 12.856, 12.856),
        ("atlas10k", "shipped", "sw64k", 12.8610, 12.861, 12.861),
        ("atlas10k", "fastbus", "sr64k", 8.7488, 8.2788, 10.3039),
        ("atlas10k", "fastbus", "sw64k", 8.2467, 0.5986, 23.9691),
        ("atlas10k_x3", "mech", "sr64k", 6.9006, 6.7496, 8.7747),
        ("atlas10k_x3", "mech", "sw64k", 6.9126, 6.7496, 8.7747),
        ("barracuda", "mech", "sr64k", 15.3396, 15.7261, 20.3404),
        ("barracuda", "shipped", "sr64k", 17.2361, 17.234, 17.234),
        ("barracuda", "fastbus", "sw64k", 15.9597, 1.4196, 43.0613),
        ("hp_c3323a", "mech", "sr64k", 24.8996, 24.5553, 27.706),
        ("hp_c3323a", "mech", "sw64k", 24.8995, 24.5553, 27.706),
        ("hp_c3323a", "shipped", "sr64k", 19.2182, 19.213, 19.213),
        ("hp_c3323a", "shipped", "sw64k", 24.9022, 24.5553, 27.706),
        ("hp_c3323a", "fastbus", "sr64k", 14.5224, 13.4359, 28.1124),
    ];
    for (name, config, workload, mean, median, high) in rows {
        let title = format!("{name} {config} {workload}");
        let mut drive = drive(name, Config::named(config).unwrap());
        let steps = Workload::named(workload).unwrap().steps(4_000, drive.sectors(), 0);
        let times = replay(&mut drive, steps).map(|served| served.response_ms());
        let ours = Distribution::of(times).unwrap();
        assert!((ours.mean / mean - 1.0).abs() < 0.005, "{title}: mean {}", ours.mean);
        let (at_50, at_99) = (ours.percentile(50), ours.percentile(99));
        assert!((at_50 - median).abs() < 0.001, "{title}: median {at_50}");
        assert!((at_99 / high - 1.0).abs() < 0.02, "{title}: 99th percentile {at_99}");
    }
}

/// Random requests on a drive without a recorded run: reference means and deviations of 5,000
/// requests, which are themselves within 1% of the true values.
#[test]
fn random_requests() {
    let seed = 7;
    let rows = [
        ("hp_c3323a", "mech", "r4k", 17.8303, 4.3301),
        ("hp_c3323a", "mech", "r64k", 32.5720, 4.9843),
        ("hp_c3323a", "mech", "w4k", 18.0571, 4.3048),
        ("hp_c3323a", "shipped", "r64k", 50.8004, 5.2025),
        ("hp_c3323a", "shipped", "mix64k", 41.4779, 10.2076),
        ("atlas10k_x3", "mech", "r64k", 9.5534, 2.6041),
        ("atlas10k_x3", "fastbus", "w4k", 3.7408, 3.4364),
    ];
    for (name, config, workload, mean, deviation) in rows {
        let title = format!("{name} {config} {workload}, seed {seed}");
        let mut drive = drive(name, Config::named(config).unwrap());
        let steps = Workload::named(workload).unwrap().steps(20_000, drive.sectors(), seed);
        let ours = Distribution::of(replay(&mut drive, steps).map(|served| served.response_ms()));
        let ours = ours.unwrap();
        assert!((ours.mean / mean - 1.0).abs() < 0.02, "{title}: mean {}", ours.mean);
        let off = (ours.deviation / deviation - 1.0).abs();
        assert!(off < 0.04, "{title}: deviation {}", ours.deviation);
    }
}

/// Real drives: the curves of the two distributions differ by at most 8% of the mean.
#[test]
fn real_drives() {
    for name in ["atlas10k", "atlas_III", "barracuda", "hp_c3323a"] {
        let mut drive = drive(name, Config::Shipped);
        let (ours, real) = beside(&mut drive, &format!("{name}.trace.gz"));
        let (ours, real) = (Distribution::of(ours).unwrap(), Distribution::of(real).unwrap());
        assert_eq!(ours.count(), 2_000);
        let demerit = ours.demerit(&real);
        assert!(demerit < 0.08 * real.mean, "{name}: {demerit} apart, the mean is {}", real.mean);
        let off = (ours.mean / real.mean - 1.0).abs();
        assert!(off < 0.04, "{name}: mean {} beside {}", ours.mean, real.mean);
    }
}

/// On every shipped drive, the same requests at the same times complete at the same times.
#[test]
fn runs_repeat() {
    let workload = Workload::named("mix64k").unwrap();
    for name in shipped::names() {
        let run = || -> Vec<Served> {
            let mut drive = drive(name, Config::Shipped);
            let steps: Vec<_> = workload.steps(500, drive.sectors(), 3).collect();
            replay(&mut drive, steps).collect()
        };
        let first = run();
        assert_eq!(first, run(), "{name}");
        let served = first.iter().all(|served| (10_000..200_000_000).contains(&served.response));
        assert!(served, "{name}");
    }
}
