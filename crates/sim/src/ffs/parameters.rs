//! Parameters of a file system: its sizes, its promises, its memory, and its costs of the
//! processor.
//!
//! Nothing here is fitted to the result of an experiment. Sizes and rules are those of the systems
//! themselves, as their manuals and makers state them; those that a paper states of its own
//! simulator are named as such. docs/research/models.md says where each value comes from.

use std::fmt;

use device::Nanos;

/// Bytes of an inode on the disk.
pub const INODE: u32 = 128;

/// Blocks that an inode points to itself; those behind them need an indirect block.
pub const DIRECT_BLOCKS: u64 = 12;

const SECOND: Nanos = 1_000_000_000;

/// A file system's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Bytes of a block: a power of two, 4,096 to 65,536.
    pub block: u32,
    /// Bytes of a fragment: an eighth of a block at least.
    pub fragment: u32,
    /// Bytes of a cylinder group.
    pub group: u64,
    /// There is an inode for so many bytes of a group.
    pub bytes_per_inode: u32,
    /// Percent of the space that ordinary users cannot take.
    pub reserve_percent: u32,
    /// Blocks that a file takes in one group before it moves on to another.
    pub group_share: u32,
    /// The most bytes that one request to the disk carries.
    pub cluster: u32,
    /// Bytes of memory for files and directories, and for metadata if they have none of their own.
    pub memory: u64,
    /// Bytes of memory for metadata alone: inodes, bitmaps, indirect blocks.
    pub metadata_memory: Option<u64>,
    /// Percent of the memory that may wait to be written; more, and the writer waits.
    pub dirty_percent: u32,
    /// Nanoseconds after which a changed block is written.
    pub sync_interval: Nanos,
    /// How often the system looks for such blocks, in nanoseconds, at most the interval: when it is
    /// the interval, everything is written each time, however recently it changed.
    pub sync_step: Nanos,
    /// Bytes of one file on their way to the disk above which its writer waits, and below which it
    /// goes on.
    pub write_throttle: Option<(u64, u64)>,
    /// The cache of directory lookups.
    pub names: Names,
    /// The model of metadata.
    pub metadata: Metadata,
    /// Whether metadata is on the disk before a call returns.
    pub synchronous: bool,
    /// Whether the inode of a directory, too, is on the disk before a creation or a removal in it
    /// returns; else its new times are written with the next sync. Only [`Metadata::Buffered`] uses
    /// it.
    pub directory_inodes: bool,
    /// The time at which data goes to the disk.
    pub data: DataWrites,
    /// Whether a read changes the file's access time.
    pub access_time: bool,
    /// Costs of calls beside the disk.
    pub processor: Processor,
}

/// The cache of directory lookups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Names {
    /// The names used last; hits come about as they do.
    Recent {
        /// Names.
        entries: usize,
    },
    /// So many of a hundred lookups are hits, independent of the names: for a rate that is
    /// published.
    Rate {
        /// Hits of a hundred.
        percent: u32,
        /// Seed of the choice.
        seed: u64,
    },
}

/// The model of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// As kernels do it: a path is looked up name by name, directories are searched from their
    /// beginning, and inodes, directories, bitmaps and indirect blocks lie in the buffer cache
    /// beside the data.
    Buffered,
    /// As the simulator behind UCFS's figures counts it (C15): nothing of it is buffered but what
    /// the lookup cache knows of whole paths. A lookup that it misses reads the inode of each
    /// directory of the path and the file's, and a read then writes the file's; a creation writes
    /// the inode of each directory and the file's. Bitmaps and the search cost nothing.
    Counted,
}

/// The time at which data goes to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataWrites {
    /// Before the call returns.
    Through,
    /// A row of blocks that are written one after another leaves as soon as it is broken off or as
    /// long as a request may be; no call waits for it.
    Rows {
        /// Whether the rest of it leaves when the file is closed, else with the next sync.
        at_close: bool,
    },
    /// With the next sync, or when the memory is needed.
    Behind,
}

/// Costs of calls beside the disk, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processor {
    /// A call.
    pub call: f64,
    /// A byte that is copied.
    pub byte: f64,
    /// An entry of a directory that is passed over.
    pub entry: f64,
}

impl Parameters {
    /// Solaris UFS as it came in 1998, on an UltraSPARC of 167 MHz, with `memory` bytes of pages
    /// (M11): blocks of 8 KB that are pages too, rows of 7 blocks, `fsflush` after 30 s, 384 KB of
    /// a file on their way, synchronous metadata. The sizes of the name cache and of the buffers
    /// for metadata (`bufhwm`: 2% of memory) are the system's formulas for 128 MB.
    pub fn solaris_ufs(memory: u64) -> Parameters {
        Parameters {
            block: 8_192,
            fragment: 1_024,
            group: 16 << 20,
            bytes_per_inode: 2_048,
            reserve_percent: 10,
            group_share: 2_048,
            cluster: 7 * 8_192,
            memory,
            metadata_memory: Some((128 << 20) / 50),
            dirty_percent: 50,
            sync_interval: 30 * SECOND,
            sync_step: 5 * SECOND,
            write_throttle: Some((384 << 10, 256 << 10)),
            names: Names::Recent { entries: 8_724 },
            metadata: Metadata::Buffered,
            synchronous: true,
            directory_inodes: true,
            data: DataWrites::Rows { at_close: true },
            access_time: true,
            processor: Processor { call: 50_000.0, byte: 10.0, entry: 200.0 },
        }
    }

    /// Returns the file system of UCFS's and TFS's simulators (C15, T5) with `memory` bytes of
    /// buffers: blocks of 4 KB in fragments of 1 KB, metadata as they count it, 65 of 100 lookups
    /// found. All writes are synchronous, or none: [`Parameters::asynchronous`].
    pub fn ucfs_ffs(memory: u64) -> Parameters {
        Parameters {
            block: 4_096,
            fragment: 1_024,
            group: 32 << 20,
            bytes_per_inode: 4_096,
            reserve_percent: 10,
            group_share: 1_024,
            cluster: 64 << 10,
            memory,
            metadata_memory: None,
            dirty_percent: 50,
            sync_interval: 30 * SECOND,
            sync_step: 30 * SECOND,
            write_throttle: None,
            names: Names::Rate { percent: 65, seed: 1 },
            metadata: Metadata::Counted,
            synchronous: true,
            directory_inodes: true,
            data: DataWrites::Through,
            access_time: true,
            processor: Processor::default(),
        }
    }

    /// Returns UFS of FreeBSD 4 with `memory` bytes of buffers (U8), on a Pentium III of 600 MHz:
    /// blocks of 8 KB, rows of 64 KB that leave at once, the rest after 30 s, synchronous metadata.
    pub fn freebsd_ufs(memory: u64) -> Parameters {
        Parameters {
            block: 8_192,
            fragment: 1_024,
            group: 32 << 20,
            bytes_per_inode: 8_192,
            reserve_percent: 8,
            group_share: 2_048,
            cluster: 64 << 10,
            memory,
            metadata_memory: None,
            dirty_percent: 50,
            sync_interval: 30 * SECOND,
            sync_step: SECOND,
            write_throttle: None,
            names: Names::Recent { entries: 17_000 },
            metadata: Metadata::Buffered,
            synchronous: true,
            directory_inodes: false,
            data: DataWrites::Rows { at_close: false },
            access_time: true,
            processor: Processor { call: 8_000.0, byte: 3.0, entry: 40.0 },
        }
    }

    /// Returns the same mounted asynchronously: no call waits for a write.
    pub fn asynchronous(self) -> Parameters {
        let data = match self.data {
            DataWrites::Through => DataWrites::Behind,
            other => other,
        };
        Parameters { synchronous: false, data, ..self }
    }

    /// Checks that a file system can be made of these on `bytes` bytes.
    pub(super) fn check(&self, bytes: u64) -> Result<(), BadParameters> {
        let Parameters { block, fragment, group, .. } = *self;
        let refuse = |what| Err(BadParameters { what });
        if !block.is_power_of_two() || !(4_096..=65_536).contains(&block) {
            return refuse("a block is a power of two of 4,096 to 65,536 bytes");
        }
        if !fragment.is_power_of_two() || fragment < 512 || fragment > block {
            return refuse("a fragment is a power of two from 512 bytes to the block");
        }
        if block / fragment > 8 {
            return refuse("a block has at most 8 fragments");
        }
        if !group.is_multiple_of(u64::from(block)) || group / u64::from(block) > 1 << 20 {
            return refuse("a group is whole blocks, at most 1,048,576 of them");
        }
        if self.bytes_per_inode < 2 * INODE {
            return refuse("there is an inode for 256 bytes at most");
        }
        // The superblock's copy, the bitmaps, the inodes, and as much for data.
        let inodes = group.div_ceil(u64::from(self.bytes_per_inode)) * u64::from(INODE);
        if group < 2 * (inodes + 4 * u64::from(block)) || bytes < group {
            return refuse("a group has room for its inodes, the disk for a group");
        }
        if self.reserve_percent > 50 || !(1..=100).contains(&self.dirty_percent) {
            return refuse("at most half is reserved, and some of the memory may be dirty");
        }
        if self.cluster < block || self.memory < 16 * u64::from(self.cluster) {
            return refuse("a request carries a block at least, memory holds 16 requests");
        }
        if self.metadata_memory.is_some_and(|memory| memory < 4 * u64::from(block)) {
            return refuse("memory for metadata holds 4 blocks");
        }
        if self.group_share == 0 || self.sync_step == 0 || self.sync_step > self.sync_interval {
            return refuse("a file has a share of a group, a sync interval has steps");
        }
        match self.names {
            Names::Rate { percent, .. } if percent > 100 => refuse("100 percent are all"),
            _ => Ok(()),
        }
    }
}

/// Why a file system cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadParameters {
    what: &'static str,
}

impl fmt::Display for BadParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no file system can be made so: {}", self.what)
    }
}

impl std::error::Error for BadParameters {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_can_be_made_and_what_cannot_is_named() {
        let shipped = [Parameters::solaris_ufs, Parameters::ucfs_ffs, Parameters::freebsd_ufs];
        for parameters in shipped.map(|make| make(64 << 20)) {
            parameters.check(1 << 30).unwrap();
            parameters.asynchronous().check(1 << 30).unwrap();
        }
        let good = Parameters::ucfs_ffs(64 << 20);
        let bad = [
            Parameters { block: 5_000, ..good },
            Parameters { fragment: 256, ..good },
            Parameters { block: 16_384, ..good },
            Parameters { group: 1_000_001, ..good },
            Parameters { bytes_per_inode: 128, ..good },
            Parameters { group: 16_384, ..good },
            Parameters { dirty_percent: 0, ..good },
            Parameters { memory: 4_096, ..good },
            Parameters { metadata_memory: Some(4_096), ..good },
            Parameters { sync_step: 0, ..good },
            Parameters { sync_interval: 1, ..good },
            Parameters { names: Names::Rate { percent: 101, seed: 1 }, ..good },
        ];
        for parameters in bad {
            let error = parameters.check(1 << 30).unwrap_err().to_string();
            assert!(error.starts_with("no file system can be made so: "), "{error}");
        }
        assert!(good.check(1 << 20).is_err());
    }
}
