//! Counts of a file system: its requests to the disk, and the answers of its caches.

/// Counted since the file system was made. A request that carries several blocks counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that read inodes, bitmaps, indirect blocks or directories.
    pub metadata_reads: u64,
    /// Requests that wrote them while the caller waited.
    pub metadata_writes: u64,
    /// Requests that wrote them later.
    pub metadata_writes_behind: u64,
    /// Requests that read files' data.
    pub data_reads: u64,
    /// Bytes of them.
    pub data_read_bytes: u64,
    /// Requests that wrote files' data while the caller waited.
    pub data_writes: u64,
    /// Requests that wrote files' data later.
    pub data_writes_behind: u64,
    /// Bytes of both.
    pub data_written_bytes: u64,
    /// Blocks that had to be read because a part of them was to be written.
    pub reads_for_write: u64,
    /// Lookups that the cache of names answered.
    pub name_hits: u64,
    /// Lookups that it did not.
    pub name_misses: u64,
    /// Reads of files and of what is mapped.
    pub reads: u64,
    /// Of those, the ones that found all their data in memory.
    pub reads_from_memory: u64,
    /// Blocks of data that were read and were in memory.
    pub data_hits: u64,
    /// Blocks of data that were read and were not.
    pub data_misses: u64,
    /// Requests behind that the disk could not carry out.
    pub lost_writes: u64,
}

impl Counts {
    /// Returns the number of all requests to the disk.
    pub fn requests(&self) -> u64 {
        let reads = self.metadata_reads + self.data_reads;
        let metadata = self.metadata_writes + self.metadata_writes_behind;
        reads + metadata + self.data_writes + self.data_writes_behind
    }
}
