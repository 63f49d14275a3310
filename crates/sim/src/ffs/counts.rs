//! Counts of a file system: its requests to the disk, and the hits and misses of its caches.

/// Counts since the file system was created. A request that carries several blocks counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that read inodes, bitmaps, indirect blocks or directories.
    pub metadata_reads: u64,
    /// Requests that wrote metadata while the caller waited.
    pub metadata_writes: u64,
    /// Requests that wrote metadata in the background.
    pub metadata_writes_behind: u64,
    /// Requests that read file data.
    pub data_reads: u64,
    /// Bytes of file data read.
    pub data_read_bytes: u64,
    /// Requests that wrote file data while the caller waited.
    pub data_writes: u64,
    /// Requests that wrote file data in the background.
    pub data_writes_behind: u64,
    /// Bytes of file data written.
    pub data_written_bytes: u64,
    /// Blocks that were read because only a part of them was to be written.
    pub reads_for_write: u64,
    /// Hits in the name cache.
    pub name_hits: u64,
    /// Misses in the name cache.
    pub name_misses: u64,
    /// Reads of files and touches of mapped files.
    pub reads: u64,
    /// Reads that found all their data in memory.
    pub reads_from_memory: u64,
    /// Data blocks read that were in memory.
    pub data_hits: u64,
    /// Data blocks read that were not in memory.
    pub data_misses: u64,
    /// Background writes that failed.
    pub lost_writes: u64,
}

impl Counts {
    /// Returns the number of requests to the disk.
    pub fn requests(&self) -> u64 {
        let reads = self.metadata_reads + self.data_reads;
        let metadata = self.metadata_writes + self.metadata_writes_behind;
        reads + metadata + self.data_writes + self.data_writes_behind
    }
}
