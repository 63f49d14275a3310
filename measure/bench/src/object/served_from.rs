//! Where a cache says that a response came from.

use serde::Serialize;

/// The place that a response came from, by its fields: `Cache-Status` of Larder, or the fields that
/// other systems are configured to send ([`super::NODE_FIELD`], [`super::RESULT_FIELD`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedFrom {
    /// The memory of the node that received the request.
    Memory,
    /// The disk of that node.
    Disk,
    /// One of the two.
    Cache,
    /// The cache of another node.
    Peer,
    /// The origin.
    Origin,
    /// The fields are absent or report something else.
    #[default]
    Unknown,
}

impl ServedFrom {
    /// Parses a value of `Cache-Status`.
    pub fn read(cache_status: &str) -> ServedFrom {
        match cache_status.rsplit_once("detail=").map(|(_, detail)| detail) {
            Some("HIT_RAM") => ServedFrom::Memory,
            Some("HIT_DISK") => ServedFrom::Disk,
            Some("HIT_PEER") => ServedFrom::Peer,
            Some("MISS") => ServedFrom::Origin,
            _ => ServedFrom::Unknown,
        }
    }

    /// Returns whether the node that received the request had the response.
    pub fn is_own(self) -> bool {
        matches!(self, ServedFrom::Memory | ServedFrom::Disk | ServedFrom::Cache)
    }
}

#[test]
fn details_of_larder_are_places() {
    let read = |detail: &str| ServedFrom::read(&format!("larder; hit; ttl=3; detail={detail}"));
    assert_eq!(read("HIT_RAM"), ServedFrom::Memory);
    assert_eq!(read("HIT_DISK"), ServedFrom::Disk);
    assert_eq!(read("HIT_PEER"), ServedFrom::Peer);
    assert_eq!(read("MISS"), ServedFrom::Origin);
    assert_eq!(read("STALE"), ServedFrom::Unknown);
    assert_eq!(ServedFrom::read("other; hit"), ServedFrom::Unknown);
}
