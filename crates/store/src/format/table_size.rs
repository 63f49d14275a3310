//! The encoded length of a cluster table, which a checkpoint must have space for.

/// Bytes before the first cluster: the number of clusters, the next incarnation, the position.
const HEADER: usize = 4 + 8 + 4;
/// Bytes of a cluster in use, without the offsets of its dead records.
const IN_USE: usize = 1 + 8 + 2 + 4 + 4 + 4 + 4;

/// Returns the maximum encoded length in bytes of a table with this many clusters and dead records.
pub(crate) const fn cluster_table_max(clusters: u32, dead: usize) -> usize {
    HEADER + clusters as usize * IN_USE + dead * 4
}
