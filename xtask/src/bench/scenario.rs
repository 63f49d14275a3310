//! Scenarios: the kinds of requests that are measured.

/// One kind of request.
pub struct Scenario {
    /// Name in the table.
    pub name: &'static str,
    /// Bytes of every body.
    pub size: usize,
    /// Number of different objects; 0: each request is for an object that was never requested.
    pub objects: u64,
    /// True if the origin permits its responses to be stored.
    pub storable: bool,
    /// Number of objects that are fetched once before the measurement.
    pub fill: u64,
    /// `--memory` of larder, MiB.
    pub memory_mib: u64,
}

/// All scenarios, in the order of the goals.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "hit from memory, 3 KB",
        size: 3_000,
        objects: 1_000,
        storable: true,
        fill: 1_000,
        memory_mib: 256,
    },
    Scenario {
        name: "hit from disk, 4 KB",
        size: 4_000,
        objects: 60_000,
        storable: true,
        fill: 60_000,
        memory_mib: 16,
    },
    Scenario {
        name: "proxied, not stored, 3 KB",
        size: 3_000,
        objects: 1_000,
        storable: false,
        fill: 1_000,
        memory_mib: 256,
    },
    Scenario {
        name: "miss + store, unique 3 KB",
        size: 3_000,
        objects: 0,
        storable: true,
        // nginx creates its 4,096 directories gradually, which should not be measured.
        fill: 20_000,
        memory_mib: 256,
    },
];

impl Scenario {
    /// Returns the path of an object, which tells the origin how to respond.
    pub fn path(&self, object: u64) -> String {
        let word = if self.storable { "store" } else { "pass" };
        format!("/{word}/{}/{object}", self.size)
    }
}

/// Returns the body of `object`: its number repeated, so that a wrong or shifted byte is detected.
pub fn body(object: u64, size: usize) -> Vec<u8> {
    let mut bytes = object.to_le_bytes().repeat(size.div_ceil(8));
    bytes.truncate(size);
    bytes
}

/// Returns whether `bytes` is the body of `object`.
pub fn is_body(object: u64, size: usize, bytes: &[u8]) -> bool {
    let word = object.to_le_bytes();
    bytes.len() == size && bytes.chunks(8).all(|chunk| chunk == &word[..chunk.len()])
}

#[test]
fn a_wrong_or_cut_body_is_seen() {
    let mut bytes = body(7, 3_001);
    assert!(is_body(7, 3_001, &bytes));
    assert!(!is_body(8, 3_001, &bytes));
    assert!(!is_body(7, 3_001, &bytes[..3_000]));
    bytes[3_000] ^= 1;
    assert!(!is_body(7, 3_001, &bytes));
}
