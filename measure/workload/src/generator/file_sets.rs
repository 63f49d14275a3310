//! The file sets of web server benchmarks as traces: WebStone, SPECweb96, SPECweb99, and the
//! classes of Olaru and Tichy.
//!
//! Files are in four classes by size; in SPECweb, each class of a directory has nine files. The
//! shares of the classes are published. Within a class, SPECweb is said to favour the middle files;
//! a binomial distribution is assumed here. Directories are equally likely in SPECweb96 and follow
//! Zipf's law in SPECweb99.

use super::calibration::Figure;
use super::distributions::SplitMix;
use super::presets::Published;
use crate::request::{Kind, Request};

/// A benchmark's files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileSet {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for the help.
    pub about: &'static str,
    /// Number of requests of a run.
    pub requests: u64,
    /// How files are chosen.
    pub rule: Rule,
    /// Number of directories (SPECweb), or of files of all classes (classes).
    pub count: u32,
    /// The published figures.
    pub published: &'static [Published],
}

/// How files are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Files of these sizes in bytes with these weights.
    Files(&'static [(u64, u32)]),
    /// Directories of 36 files, with the exponent of Zipf's law over directories; 0: equally
    /// likely.
    Directories(f64),
    /// Classes by size, with the requests for each per thousand. Files of a class are equally
    /// likely.
    Classes([u32; 4]),
}

/// WebStone 2, filelist.standard.
const WEBSTONE: [(u64, u32); 5] =
    [(500, 350), (5_125, 500), (51_250, 140), (512_500, 9), (5_248_000, 1)];

/// SPECweb: requests for each class, per thousand.
const CLASSES: [u32; 4] = [350, 500, 140, 10];

/// Size step in bytes of each class of SPECweb: files have one to nine steps.
const STEPS: [f64; 4] = [102.4, 1_024.0, 10_240.0, 102_400.0];

/// Files of one class in a directory.
const FILES: u32 = 9;

/// Size limits in bytes between the classes of Olaru and Tichy.
const BOUNDS: [f64; 5] = [100.0, 1_024.0, 10_240.0, 102_400.0, 1_024_000.0];

/// Number of clients. SPECweb99 makes five consecutive requests on a connection; here every request
/// draws its client.
const CLIENTS: u64 = 300;

impl FileSet {
    /// All file sets.
    pub const ALL: [FileSet; 5] = [
        FileSet {
            name: "webstone",
            about: "WebStone 2's standard list of five files",
            requests: 500_000,
            rule: Rule::Files(&WEBSTONE),
            count: 5,
            published: &[],
        },
        FileSet {
            name: "olaru-tichy",
            about: "Classes of 50, 35, 14 and 1% of requests, 1 GB of files",
            requests: 500_000,
            rule: Rule::Classes([500, 350, 140, 10]),
            count: 100_000,
            published: &[],
        },
        FileSet {
            name: "olaru-tichy-swapped",
            about: "The same with 35, 50, 14 and 1%, as WebStone and SPECweb96 have it",
            requests: 500_000,
            rule: Rule::Classes(CLASSES),
            count: 100_000,
            published: &[],
        },
        FileSet {
            name: "specweb96",
            about: "SPECweb96, 200 directories of 5 MB",
            requests: 1_000_000,
            rule: Rule::Directories(0.0),
            count: 200,
            published: &[],
        },
        FileSet {
            name: "specweb99",
            about: "SPECweb99's static part, 205 directories of 5 MB",
            requests: 1_000_000,
            rule: Rule::Directories(1.0),
            count: 205,
            published: &[Published {
                figure: Figure::Gigabytes,
                value: 14.0,
                source: "USENIX 2006: mean of about 14 KB",
            }],
        },
    ];

    /// Returns the file set with fewer directories or files and fewer requests. WebStone's five
    /// files stay.
    #[must_use]
    pub fn scaled(self, divisor: u32) -> FileSet {
        let divisor = divisor.max(1);
        let count = match self.rule {
            Rule::Files(_) => self.count,
            _ => (self.count / divisor).max(1),
        };
        FileSet { count, requests: self.requests / u64::from(divisor), ..self }
    }
}

/// The requests of a benchmark's clients: an endless iterator.
pub struct FileSetRequests {
    what: FileSet,
    seed: u64,
    dice: SplitMix,
    requests: u64,
    /// Cumulative share of directories.
    directories: Vec<f64>,
}

struct File {
    number: u32,
    group: u32,
    size: u64,
}

impl FileSetRequests {
    /// Returns the requests from the beginning.
    pub fn new(what: FileSet, seed: u64) -> FileSetRequests {
        let exponent = match what.rule {
            Rule::Directories(exponent) => exponent,
            _ => 0.0,
        };
        let mut sum = 0.0;
        let ranks = (1..=what.count.max(1)).map(|rank| f64::from(rank).powf(-exponent));
        let mut directories: Vec<f64> = ranks
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        directories.iter_mut().for_each(|share| *share /= sum);
        FileSetRequests { what, seed, dice: SplitMix::new(seed), requests: 0, directories }
    }

    /// Draws an index with these weights.
    fn weighted(&mut self, weights: impl Iterator<Item = u32> + Clone) -> u32 {
        let sum: u32 = weights.clone().sum();
        let mut left = self.dice.below(u64::from(sum.max(1))) as u32;
        let place = weights.take_while(|weight| {
            let is_before = *weight <= left;
            left = left.saturating_sub(*weight);
            is_before
        });
        place.count() as u32
    }

    fn file(&mut self) -> File {
        match self.what.rule {
            Rule::Files(files) => {
                let number = self.weighted(files.iter().map(|(_, weight)| *weight));
                File { number, group: 0, size: files[number as usize].0 }
            }
            Rule::Directories(_) => {
                let uniform = self.dice.uniform();
                let directory = self.directories.partition_point(|share| *share < uniform);
                let directory = directory.min(self.directories.len() - 1) as u32;
                let class = self.weighted(CLASSES.into_iter());
                // The sum of eight coin flips.
                let file = (self.dice.number() >> 56).count_ones();
                let size = (STEPS[class as usize] * f64::from(file + 1)) as u64;
                let number = (directory * 4 + class) * FILES + file;
                File { number, group: directory, size }
            }
            Rule::Classes(shares) => {
                let class = self.weighted(shares.into_iter());
                // The number of files of a class is proportional to its requests: 100,000 in total
                // are about 1 GB.
                let files = |share: u32| (self.what.count * share / 1_000).max(1);
                let before: u32 = shares[..class as usize].iter().map(|share| files(*share)).sum();
                let files = files(shares[class as usize]);
                let number = before + self.dice.below(u64::from(files)) as u32;
                let (least, most) = (BOUNDS[class as usize], BOUNDS[class as usize + 1]);
                // Small files are more frequent than large ones: the logarithm is uniform.
                let place = SplitMix::of(self.seed, u64::from(number)).uniform();
                let size = (least * (most / least).powf(place)) as u64;
                File { number, group: number / 100, size }
            }
        }
    }
}

impl Iterator for FileSetRequests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let File { number, group, size } = self.file();
        self.requests += 1;
        Some(Request {
            // Closed loops have no times of their own: assume a thousand requests a second.
            time_ms: self.requests,
            size,
            client: self.dice.below(CLIENTS) as u32,
            group,
            object: number,
            status: 200,
            kind: Kind::Other,
            ..Request::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn set(name: &str) -> FileSet {
        FileSet::ALL.into_iter().find(|set| set.name == name).unwrap()
    }

    fn mean(name: &str) -> f64 {
        const REQUESTS: usize = 300_000;
        let requests = FileSetRequests::new(set(name), 1).take(REQUESTS);
        requests.map(|request| request.size as f64).sum::<f64>() / REQUESTS as f64
    }

    #[test]
    fn means_are_the_published_ones() {
        let webstone = mean("webstone");
        assert!((18_500.0..21_000.0).contains(&webstone), "{webstone}");
        let specweb = mean("specweb99");
        assert!((13_500.0..16_500.0).contains(&specweb), "{specweb}");
        // The set of Olaru and Tichy has about 1 GB.
        let sizes: HashMap<u32, u64> = FileSetRequests::new(set("olaru-tichy"), 1)
            .take(1_000_000)
            .map(|request| (request.object, request.size))
            .collect();
        let bytes: u64 = sizes.values().sum();
        assert!((700_000_000..1_300_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn directories_have_36_files_of_5_megabytes() {
        let one = FileSet { count: 1, ..set("specweb96") };
        let sizes: HashMap<u32, u64> = FileSetRequests::new(one, 1)
            .take(500_000)
            .map(|request| (request.object, request.size))
            .collect();
        let bytes: u64 = sizes.values().sum();
        assert_eq!(sizes.len(), 36);
        assert!((4_900_000..5_200_000).contains(&bytes), "{bytes}");
    }

    /// USENIX 2006, table 2, for 1 GB: 99% of the requests are for 138 MB, half for 2.1 MB.
    #[test]
    fn most_requests_are_for_few_files() {
        let mut files: HashMap<u32, (u64, u64)> = HashMap::new();
        const REQUESTS: u64 = 1_000_000;
        for request in FileSetRequests::new(set("specweb99"), 1).take(REQUESTS as usize) {
            files.entry(request.object).or_insert((0, request.size)).0 += 1;
        }
        let mut files: Vec<(u64, u64)> = files.into_values().collect();
        files.sort_unstable_by(|a, b| b.cmp(a));
        let bytes_of = |percent: u64| {
            let mut requests = 0;
            let first = files.iter().take_while(|(count, _)| {
                requests += count;
                requests - count < REQUESTS * percent / 100
            });
            first.map(|(_, size)| *size).sum::<u64>() as f64 / 1e6
        };
        let (half, most) = (bytes_of(50), bytes_of(99));
        assert!((1.0..4.2).contains(&half), "{half} MB");
        assert!((70.0..280.0).contains(&most), "{most} MB");
    }
}
