//! Sizes that several parts of the store share.

/// Maximum number of body bytes in a piece of a large object.
pub const PIECE_MAX: u32 = 128 * 1024;

/// Bytes of a large structure (checkpoint, index dump) that are written or read in one request.
pub(crate) const STEP: usize = 1 << 20;

/// Minimum size of a cache in bytes: metadata areas and sixteen clusters of the smallest size.
pub const CACHE_SIZE_MIN: u64 = 8 * 1024 * 1024;

/// Allowed cluster sizes in bytes (UCFS, figure 11: 16 to 256 KB; larger devices profit from larger
/// ones).
pub const CLUSTER_SIZES: std::ops::RangeInclusive<u32> = 16 * 1024..=4 * 1024 * 1024;

/// Returns the cluster size for a cache of `len` bytes. From 1 GiB on it is 1 MiB, so that a
/// cluster costs one large write and summaries and tables cost little. A smaller cache has smaller
/// clusters, so that there are enough of them (1,024; 512 at 64 MiB) for fine-grained eviction. A
/// cache of more than 8 GiB has larger ones.
pub(crate) fn cluster_size_for(len: u64) -> u32 {
    let least = if len < 64 << 20 { 64 * 1024 } else { 128 * 1024 };
    let wanted = (len / 1024).min(1 << 20).max(len / 8192);
    1 << wanted.clamp(least, u64::from(*CLUSTER_SIZES.end())).ilog2()
}

/// Number of a cluster on its device.
pub(crate) type ClusterId = u32;

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn cluster_sizes_follow_the_cache() {
        assert_eq!(cluster_size_for(8 << 20), 64 * 1024);
        assert_eq!(cluster_size_for(64 << 20), 128 * 1024);
        assert_eq!(cluster_size_for(256 << 20), 256 * 1024);
        assert_eq!(cluster_size_for(GIB), 1024 * 1024);
        assert_eq!(cluster_size_for(10 * GIB), 1024 * 1024);
        assert_eq!(cluster_size_for(1200 * GIB), 4 * 1024 * 1024);
    }
}
