//! Documents by number and their popularity: the classes of Olaru and Tichy, and a separate set
//! under Zipf's law whose popularity drifts.
//!
//! The paper states each class's share of the requests and of the service time, and the total size.
//! It does not state the number of files in a class, which determines how popular a file is, nor
//! the popularity within a class. [`FileCounts`] and the exponent cover these open questions.

use std::sync::Arc;

use super::distributions::SplitMix;

/// Directories of SPECweb99's file set for the paper's 300 connections: 25 and 2 for each 3
/// connections (`25 + (400000 / 122000 × connections) / 5`).
pub const DIRECTORIES: u32 = 222;
/// Files of a class in a directory of SPECweb99.
const FILES: u32 = 9;
/// Bytes of the smallest file of SPECweb99's smallest class; file `n` of 9 has `n` times as many,
/// and each class ten times those of the one before.
const SMALLEST: f64 = 102.4;
/// The files of a class in a directory of SPECweb99 by popularity, which follows
/// Zipf's law like that of the directories.
const BY_POPULARITY: [u64; FILES as usize] = [4, 3, 5, 2, 6, 1, 7, 8, 0];

/// Bounds of the file sizes of the paper's classes, in bytes.
const BOUNDS: [f64; 5] = [100.0, 1_024.0, 10_240.0, 102_400.0, 1_024_000.0];

/// How the number of files in a class is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileCounts {
    /// SPECweb99's: this many directories of 9 files of each class, both by Zipf's law with
    /// exponent 1. The set has no other size, and no other exponent.
    Directories(u32),
    /// Equal for all classes, as in SPECweb: a file of class 0 is 50 times as popular as one of
    /// class 3.
    Alike,
    /// In proportion to the square roots of their requests: 7 times as popular.
    Roots,
    /// In proportion to their requests: all files are equally popular.
    AsRequests,
}

/// Files in four classes of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DocumentSet {
    /// Requests of each class, per thousand.
    pub shares: [u32; 4],
    /// How the number of files in each class is chosen.
    pub counts: FileCounts,
    /// Exponent of Zipf's law within a class, in hundredths.
    pub skew: u32,
    /// Total size of the files.
    pub bytes: u64,
}

impl DocumentSet {
    /// The paper's shares (section 3).
    pub const PAPER: [u32; 4] = [500, 350, 140, 10];
    /// WebStone's shares.
    pub const WEBSTONE: [u32; 4] = [350, 500, 140, 10];

    /// Returns the number of files in each class, so that the total size is `bytes`.
    fn files(&self) -> [u64; 4] {
        let weight = |class: usize| match self.counts {
            FileCounts::Directories(_) | FileCounts::Alike => 1.0,
            FileCounts::Roots => f64::from(self.shares[class]).sqrt(),
            FileCounts::AsRequests => f64::from(self.shares[class]),
        };
        let mean = |class: usize| {
            let (least, most) = (BOUNDS[class], BOUNDS[class + 1]);
            (most - least) / (most / least).ln()
        };
        if let FileCounts::Directories(count) = self.counts {
            return [u64::from(count * FILES); 4];
        }
        let sum: f64 = (0..4).map(|class| weight(class) * mean(class)).sum();
        let files = |class| (weight(class) * self.bytes as f64 / sum).round().max(1.0) as u64;
        [0, 1, 2, 3].map(files)
    }
}

/// Sizes and popularity of documents, which have the numbers from 0.
#[derive(Clone, Debug)]
pub struct Documents {
    sizes: Vec<u32>,
    popularity: Popularity,
}

#[derive(Clone, Debug)]
enum Popularity {
    /// First file of each class and the end of the last; requests of each per thousand; the
    /// exponent.
    Classes { first: [u64; 5], shares: [u32; 4], skew: f64 },
    /// SPECweb99's: directories of 9 files of each class, directory by directory in each class;
    /// requests of each class per thousand.
    Directories { count: u64, shares: [u32; 4] },
    /// Zipf's law with this exponent; every `period` requests another document takes over a rank.
    Drift { exponent: f64, period: u64 },
}

impl Documents {
    /// Returns the documents of a set.
    pub fn classes(set: &DocumentSet, seed: u64) -> Documents {
        let files = set.files();
        if let FileCounts::Directories(count) = set.counts {
            let size = |class: i32, file: u64| {
                (SMALLEST * 10_f64.powi(class) * (file % u64::from(FILES) + 1) as f64) as u32
            };
            let of_class = |class| (0..files[0]).map(move |file| size(class, file));
            let sizes = (0..4).flat_map(of_class).collect();
            let popularity =
                Popularity::Directories { count: u64::from(count), shares: set.shares };
            return Documents { sizes, popularity };
        }
        let mut first = [0; 5];
        let mut sizes = Vec::new();
        for class in 0..4 {
            first[class + 1] = first[class] + files[class];
            let (least, most) = (BOUNDS[class], BOUNDS[class + 1]);
            sizes.extend((first[class]..first[class + 1]).map(|file| {
                // Small files are more frequent than large ones: the logarithm of the size is
                // uniform.
                let place = SplitMix::of(seed, file).uniform();
                (least * (most / least).powf(place)) as u32
            }));
        }
        let skew = f64::from(set.skew) / 100.0;
        Documents { sizes, popularity: Popularity::Classes { first, shares: set.shares, skew } }
    }

    /// Returns `count` documents of 16 KiB on average (lognormal sizes) under Zipf's law. Every
    /// `period` requests, the document of one rank is swapped with an unpopular one.
    pub fn drift(count: u32, exponent: f64, period: u64, seed: u64) -> Documents {
        let size = |document| {
            let normal = SplitMix::of(seed, document).normal();
            (8_400.0 * (1.15 * normal).exp()).clamp(128.0, 4e6) as u32
        };
        let sizes = (0..u64::from(count)).map(size).collect();
        Documents { sizes, popularity: Popularity::Drift { exponent, period } }
    }

    /// Returns the number of documents.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the size of a document in bytes.
    pub fn size(&self, document: u32) -> u64 {
        u64::from(self.sizes[document as usize])
    }

    /// Returns the size of all documents in bytes.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| u64::from(*size)).sum()
    }
}

/// Requests by number of the document: an endless iterator.
pub struct Requests {
    documents: Arc<Documents>,
    dice: SplitMix,
    count: u64,
    /// The documents by rank, if their popularity drifts.
    ranks: Vec<u32>,
}

impl Requests {
    /// Returns the requests from the beginning.
    pub fn new(documents: &Arc<Documents>, seed: u64) -> Requests {
        let ranks = match documents.popularity {
            Popularity::Classes { .. } | Popularity::Directories { .. } => Vec::new(),
            Popularity::Drift { .. } => (0..documents.count() as u32).collect(),
        };
        Requests { documents: Arc::clone(documents), dice: SplitMix::new(seed), count: 0, ranks }
    }

    fn of_class(&mut self, first: [u64; 5], shares: [u32; 4], skew: f64) -> u32 {
        let class = self.class(shares);
        let rank = self.dice.power(first[class + 1] - first[class], skew) - 1;
        (first[class] + rank) as u32
    }

    fn of_directory(&mut self, count: u64, shares: [u32; 4]) -> u32 {
        let class = self.class(shares) as u64;
        let directory = self.dice.harmonic(count) - 1;
        let rank = self.dice.harmonic(u64::from(FILES)) - 1;
        let file = BY_POPULARITY[rank as usize];
        ((class * count + directory) * u64::from(FILES) + file) as u32
    }

    fn class(&mut self, shares: [u32; 4]) -> usize {
        let mut left = self.dice.below(shares.iter().map(|share| u64::from(*share)).sum());
        let mut class = 0;
        while class < 3 && left >= u64::from(shares[class]) {
            left -= u64::from(shares[class]);
            class += 1;
        }
        class
    }
}

impl Iterator for Requests {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.count += 1;
        Some(match self.documents.popularity {
            Popularity::Classes { first, shares, skew } => self.of_class(first, shares, skew),
            Popularity::Directories { count, shares } => self.of_directory(count, shares),
            Popularity::Drift { exponent, period } => {
                if self.count.is_multiple_of(period) {
                    // A random document of the unpopular half becomes popular.
                    let count = self.ranks.len() as u64;
                    let rank = self.dice.power(count, exponent) - 1;
                    let other = count / 2 + self.dice.below(count - count / 2);
                    self.ranks.swap(rank as usize, other as usize);
                }
                let rank = self.dice.power(self.ranks.len() as u64, exponent) - 1;
                self.ranks[rank as usize]
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: DocumentSet = DocumentSet {
        shares: DocumentSet::PAPER,
        counts: FileCounts::Alike,
        skew: 0,
        bytes: 1 << 28,
    };

    #[test]
    fn a_file_set_has_its_size_whatever_the_counts() {
        for counts in [FileCounts::Alike, FileCounts::Roots, FileCounts::AsRequests] {
            let documents = Documents::classes(&DocumentSet { counts, ..SET }, 3);
            let ratio = documents.bytes() as f64 / (1_u64 << 28) as f64;
            assert!((0.95..1.05).contains(&ratio), "{counts:?}: {ratio}");
        }
    }

    /// SPECweb99: 1 GB for 300 connections; 35.3% of the requests of a class and directory are for
    /// its fifth file; the first of 222 directories has 16.7%.
    #[test]
    fn directories_have_specwebs_sizes_and_popularity() {
        let counts = FileCounts::Directories(DIRECTORIES);
        let documents = Arc::new(Documents::classes(&DocumentSet { counts, ..SET }, 3));
        assert_eq!(documents.count(), 222 * 36);
        assert!((1.05..1.06).contains(&(documents.bytes() as f64 / (1_u64 << 30) as f64)));
        let sizes = [0, 8, 222 * 9, 3 * 222 * 9, 222 * 36 - 1].map(|file| documents.size(file));
        assert_eq!(sizes, [102, 921, 1_024, 102_400, 921_600]);
        let requests: Vec<u32> = Requests::new(&documents, 4).take(200_000).collect();
        let percent = |is: &dyn Fn(u32) -> bool| {
            requests.iter().filter(|file| is(**file)).count() as f64 / 2_000.0
        };
        let middle = percent(&|file| file % 9 == 4);
        let first = percent(&|file| file / 9 % 222 == 0);
        assert!((34.5..36.0).contains(&middle) && (16.0..17.5).contains(&first));
    }

    /// If each request costs the time of about 5 KB in addition to its bytes, the classes' shares
    /// of the service time are the paper's: close to 40% for class 2, a quarter for class 3
    /// (section 3).
    #[test]
    fn shares_of_requests_and_of_time_are_the_papers() {
        let documents = Arc::new(Documents::classes(&SET, 3));
        let mut time = [0.0; 4];
        let mut requests = [0.0; 4];
        for document in Requests::new(&documents, 4).take(200_000) {
            let size = documents.size(document);
            let class = [1_024, 10_240, 102_400].iter().filter(|bound| size >= **bound).count();
            requests[class] += 1.0 / 2_000.0;
            time[class] += 5_000.0 + size as f64;
        }
        let sum: f64 = time.iter().sum();
        let [.., medium, large] = time.map(|time| 100.0 * time / sum);
        assert!((37.0..41.0).contains(&medium) && (22.0..28.0).contains(&large), "{time:?}");
        for (share, stated) in requests.into_iter().zip([50.0_f64, 35.0, 14.0, 1.0]) {
            assert!((share - stated).abs() < 1.0, "{requests:?}");
        }
    }

    #[test]
    fn drifting_popularity_moves_to_other_documents() {
        let documents = Arc::new(Documents::drift(1_000, 0.9, 20, 1));
        let mut requests = Requests::new(&documents, 2);
        let popular = |requests: &mut Requests| {
            let mut counts = vec![0; 1_000];
            requests.take(20_000).for_each(|document| counts[document as usize] += 1);
            let mut order: Vec<usize> = (0..1_000).collect();
            order.sort_by_key(|document| std::cmp::Reverse(counts[*document]));
            order[..20].to_vec()
        };
        let before = popular(&mut requests);
        let after = popular(&mut requests);
        let same = before.iter().filter(|document| after.contains(document)).count();
        assert!(same < 20, "{same}");
        assert!(documents.bytes() > 0);
    }
}
