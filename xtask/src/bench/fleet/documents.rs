//! The documents that clients request: by popularity (Zipf), which drifts.
//!
//! A fixed number of documents is popular at a time. At intervals a random one of them is replaced
//! by one that was never requested. The sequence follows from the seed.

use std::collections::HashSet;

use testkit::pages;

/// A sequence of documents.
pub struct Documents {
    random: fastrand::Rng,
    /// The numbers of the documents, the most popular one first.
    ranked: Vec<u64>,
    /// Cumulative share of requests by rank.
    shares: Vec<f64>,
    drift: u64,
    asked: u64,
    next: u64,
    seen: HashSet<u64>,
}

impl Documents {
    /// Returns a sequence of `documents` documents at a time by Zipf's law with this exponent; one
    /// is replaced after every `drift` requests.
    pub fn new(documents: u32, exponent: f64, drift: u64, seed: u64) -> Documents {
        let mut shares: Vec<f64> = Vec::new();
        let mut sum = 0.0;
        for rank in 1..=documents {
            sum += f64::from(rank).powf(-exponent);
            shares.push(sum);
        }
        shares.iter_mut().for_each(|share| *share /= sum);
        let mut random = fastrand::Rng::with_seed(seed);
        let next = u64::from(documents);
        let mut ranked: Vec<u64> = (0..next).collect();
        random.shuffle(&mut ranked);
        Documents { random, ranked, shares, drift, asked: 0, next, seen: HashSet::new() }
    }

    /// Returns the document of the next request.
    pub fn ask(&mut self) -> u64 {
        self.asked += 1;
        if self.asked.is_multiple_of(self.drift) {
            let rank = self.random.usize(..self.ranked.len());
            self.ranked[rank] = self.next;
            self.next += 1;
        }
        let at = self.random.f64();
        let rank = self.shares.partition_point(|share| *share < at).min(self.ranked.len() - 1);
        let document = self.ranked[rank];
        self.seen.insert(document);
        document
    }

    /// Returns the number of different documents requested so far.
    pub fn seen(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Returns the bytes of the documents that are popular now.
    pub fn bytes(&self) -> u64 {
        self.ranked.iter().map(|document| pages::body_len(*document) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_popular_are_asked_for_by_zipfs_law() {
        let mut documents = Documents::new(1_000, 1.0, u64::MAX, 7);
        let (first, tenth) = (documents.ranked[0], documents.ranked[9]);
        let asked: Vec<u64> = (0..200_000).map(|_| documents.ask()).collect();
        let count = |of: u64| asked.iter().filter(|document| **document == of).count() as f64;
        let ratio = count(first) / count(tenth);
        assert!((9.0..11.0).contains(&ratio), "{ratio}");
        assert_eq!(documents.seen(), 1_000);
    }

    #[test]
    fn documents_are_exchanged_for_new_ones() {
        let mut documents = Documents::new(100, 0.8, 10, 7);
        for _ in 0..1_000 {
            documents.ask();
        }
        assert_eq!(documents.next, 200);
        let left = documents.ranked.iter().filter(|document| **document < 100).count();
        assert!((20..55).contains(&left), "{left} of the first ones, about 100 / e");
    }
}
