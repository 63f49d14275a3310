//! What the paper has: its tables, and what its text says of its figures.

use serde::Serialize;

/// One of the paper's two machines (section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// A Pentium III of 600 MHz, 256 MB of memory, one IDE disk of 7,200 turns a minute.
    LowEnd,
    /// Two of these, 1 GB, five SCSI disks of 10,000 turns a minute.
    HighEnd,
}

impl Test {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Test::LowEnd => "low-end",
            Test::HighEnd => "high-end",
        }
    }

    /// Random operations that its disks do a second. The paper does not say: this follows from
    /// what drives of their kind take for a seek and half a turn, 8.9 + 4.2 ms for one of 7,200
    /// turns a minute, and 4.9 + 3 ms for each of the five of 10,000.
    pub fn operations(self) -> u32 {
        match self {
            Test::LowEnd => 76,
            Test::HighEnd => 630,
        }
    }

    /// The rates of its figures up to the one that Squid-2.4 delivers, in requests a second.
    pub fn rates(self) -> [f64; 2] {
        match self {
            Test::LowEnd => [10.0, 50.0],
            Test::HighEnd => [50.0, 170.0],
        }
    }

    /// How many times as long a hit takes in Squid-2.4, from the least to the most (section 5.2).
    pub fn hit_ratio(self) -> [f64; 2] {
        match self {
            Test::LowEnd => [6.0, 22.0],
            Test::HighEnd => [2.0, 9.0],
        }
    }

    /// How many times as long the mean response takes in Squid-2.4 at the highest rate that it
    /// delivers (section 5.4).
    pub fn response_ratio(self) -> f64 {
        match self {
            Test::LowEnd => 3.5,
            Test::HighEnd => 1.5,
        }
    }

    /// Peak throughput of Squid-2.4 and of UNIFIED, each from and to (table 3).
    pub fn peaks(self) -> [[f64; 2]; 2] {
        match self {
            Test::LowEnd => [[50.0, 60.0], [120.0, 130.0]],
            Test::HighEnd => [[170.0, 180.0], [250.0, 300.0]],
        }
    }

    /// UNIFIED's peak by Squid-2.4's (section 5.5: 127 and 57% more).
    pub fn peak_ratio(self) -> f64 {
        match self {
            Test::LowEnd => 2.27,
            Test::HighEnd => 1.57,
        }
    }
}

/// Calls for each request: open, close, unlink, read and write.
pub type CallsPerRequest = [f64; 5];

/// Tables 1 and 2 of the high-end test, whose requests section 3.1 counts: rate, millions of
/// requests, millions of calls of Squid-2.4 and of UNIFIED.
const COUNTED: [(u32, f64, CallsPerRequest, CallsPerRequest); 4] = [
    (50, 4.3, [3.221, 3.221, 1.691, 1.845, 6.608], [0.0, 0.0, 0.0, 0.809, 2.411]),
    (100, 6.0, [4.628, 4.628, 2.282, 3.380, 8.228], [0.0, 0.0, 0.0, 1.622, 3.005]),
    (150, 7.8, [6.081, 6.081, 3.235, 4.305, 10.814], [0.0, 0.0, 0.0, 2.125, 3.956]),
    (200, 9.5, [7.477, 7.477, 4.405, 4.706, 14.006], [0.0, 0.0, 0.0, 2.351, 5.126]),
];

/// Calls for each request of Squid-2.4 and of UNIFIED, at each of the rates.
pub fn calls_per_request() -> Vec<(u32, CallsPerRequest, CallsPerRequest)> {
    let each = |requests: f64, calls: CallsPerRequest| calls.map(|calls| calls / requests);
    let rows = COUNTED.into_iter();
    rows.map(|(rate, requests, squid, unified)| {
        (rate, each(requests, squid), each(requests, unified))
    })
    .collect()
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
