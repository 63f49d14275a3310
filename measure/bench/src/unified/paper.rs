//! The paper's results: its tables, and what its text states about its figures.

use serde::Serialize;
use workload::unified_paper::{Counted, HIGH_END};

/// One of the paper's two machines (section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// A Pentium III of 600 MHz, 256 MB of memory, one IDE disk of 7,200 rpm.
    LowEnd,
    /// Two of these processors, 1 GB of memory, five SCSI disks of 10,000 rpm.
    HighEnd,
}

impl Test {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Test::LowEnd => "low-end",
            Test::HighEnd => "high-end",
        }
    }

    /// Returns the random operations per second of its disks. The paper does not state them; they
    /// follow from the typical time for a seek and half a rotation: 8.9 + 4.2 ms for one disk of
    /// 7,200 rpm, and 4.9 + 3 ms for each of five of 10,000 rpm.
    pub fn operations(self) -> u32 {
        match self {
            Test::LowEnd => 76,
            Test::HighEnd => 630,
        }
    }

    /// Returns the rates of its figures, up to the highest that Squid-2.4 delivers, in requests per
    /// second.
    pub fn rates(self) -> [f64; 2] {
        match self {
            Test::LowEnd => [10.0, 50.0],
            Test::HighEnd => [50.0, 170.0],
        }
    }

    /// Returns the hit time of Squid-2.4 relative to UNIFIED's, from the smallest to the largest
    /// ratio (section 5.2).
    pub fn hit_ratio(self) -> [f64; 2] {
        match self {
            Test::LowEnd => [6.0, 22.0],
            Test::HighEnd => [2.0, 9.0],
        }
    }

    /// Returns the mean response time of Squid-2.4 relative to UNIFIED's, at the highest rate that
    /// Squid-2.4 delivers (section 5.4).
    pub fn response_ratio(self) -> f64 {
        match self {
            Test::LowEnd => 3.5,
            Test::HighEnd => 1.5,
        }
    }

    /// Returns the peak throughput of Squid-2.4 and of UNIFIED, each as a range (table 3).
    pub fn peaks(self) -> [[f64; 2]; 2] {
        match self {
            Test::LowEnd => [[50.0, 60.0], [120.0, 130.0]],
            Test::HighEnd => [[170.0, 180.0], [250.0, 300.0]],
        }
    }

    /// Returns UNIFIED's peak relative to Squid-2.4's (section 5.5: 127 and 57% more).
    pub fn peak_ratio(self) -> f64 {
        match self {
            Test::LowEnd => 2.27,
            Test::HighEnd => 1.57,
        }
    }
}

/// Calls per request: open, close, unlink, read and write.
pub type CallsPerRequest = [f64; 5];

/// Millions of requests in the high-end test, by their rate (section 3.1).
const REQUESTS: [(u32, f64); 4] = [(50, 4.3), (100, 6.0), (150, 7.8), (200, 9.5)];

/// Returns the calls per request of Squid-2.4 and of UNIFIED, for each rate whose requests are
/// known.
pub fn calls_per_request() -> Vec<(u32, CallsPerRequest, CallsPerRequest)> {
    let counted = |(rate, millions): (u32, f64)| {
        let Counted { opens, closes, deletes, reads, writes, .. } =
            HIGH_END.into_iter().find(|counted| counted.rate == rate)?;
        let each = |calls: CallsPerRequest| calls.map(|calls| calls / (millions * 1e6));
        let squid = each([opens, closes, deletes, reads[0], writes[0]]);
        Some((rate, squid, each([0.0, 0.0, 0.0, reads[1], writes[1]])))
    };
    REQUESTS.into_iter().filter_map(counted).collect()
}

/// Shares of Squid-2.4's reads and writes that UNIFIED saves (section 5.1).
pub const SAVED: [f64; 2] = [0.50, 0.63];

#[test]
fn the_tables_agree_with_the_text() {
    for (rate, squid, unified) in calls_per_request() {
        // "the proportion of open/close and unlink to the total requests number are roughly 76%
        // and 40%" (section 3.1).
        assert!((squid[0] - 0.76).abs() < 0.04 && (squid[2] - 0.40).abs() < 0.07, "{rate}");
        for (call, saved) in [3, 4].into_iter().zip(SAVED) {
            let found = 1.0 - unified[call] / squid[call];
            assert!((found - saved).abs() < 0.07, "{rate}: {found}");
        }
    }
    for test in [Test::LowEnd, Test::HighEnd] {
        let [squid, unified] = test.peaks();
        let ratio = (unified[0] + unified[1]) / (squid[0] + squid[1]);
        assert!((ratio - test.peak_ratio()).abs() < 0.02, "{}: {ratio}", test.name());
    }
}
