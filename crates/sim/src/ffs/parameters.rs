//! Parameters of a file system: its sizes, its durability, its memory, and its processor costs.
//!
//! None is fitted to the result of an experiment. Sizes and rules are those that the manuals and
//! makers of the systems state; those that a paper states of its own simulator are named as such.
//! docs/research/models.md gives the source of each value.

use device::Nanos;

/// Bytes of an inode on the disk.
pub const INODE: u32 = 128;

/// Blocks that an inode points to directly; later ones need an indirect block.
pub const DIRECT_BLOCKS: u64 = 12;

const SECOND: Nanos = 1_000_000_000;

/// A file system's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Bytes of a block: a power of two, 4,096 to 65,536.
    pub block: u32,
    /// Bytes of a fragment: at least an eighth of a block.
    pub fragment: u32,
    /// Bytes of a cylinder group.
    pub group: u64,
    /// Bytes of a group per inode.
    pub bytes_per_inode: u32,
    /// Percentage of the space that ordinary users cannot take.
    pub reserve_percent: u32,
    /// Blocks that a file takes in one group before it moves on to another.
    pub group_share: u32,
    /// Maximum bytes of one request to the disk.
    pub cluster: u32,
    /// Bytes of memory for files and directories, and for metadata without memory of its own.
    pub memory: u64,
    /// Bytes of memory for metadata alone: inodes, bitmaps, indirect blocks.
    pub metadata_memory: Option<u64>,
    /// Percentage of the memory that may be dirty before a writer waits.
    pub dirty_percent: u32,
    /// Nanoseconds after which a changed block is written.
    pub sync_interval: Nanos,
    /// Interval in nanoseconds at which the system looks for such blocks; at most `sync_interval`.
    /// If equal, every pass writes everything, however recently it changed.
    pub sync_step: Nanos,
    /// Bytes of one file in flight to the disk: above the first its writer waits, below the second
    /// it continues.
    pub write_throttle: Option<(u64, u64)>,
    /// The cache of directory lookups.
    pub names: Names,
    /// The model of metadata.
    pub metadata: Metadata,
    /// True if metadata is on the disk before a call returns.
    pub synchronous: bool,
    /// True if the directory's inode is also on the disk before a creation or removal in it
    /// returns. Otherwise its new times are written with the next sync. Only [`Metadata::Buffered`]
    /// uses it.
    pub directory_inodes: bool,
    /// When data goes to the disk.
    pub data: DataWrites,
    /// True if a read changes the file's access time.
    pub access_time: bool,
    /// Costs of calls apart from the disk.
    pub processor: Processor,
}

/// The cache of directory lookups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Names {
    /// The most recently used names; hits follow from the lookups.
    Recent {
        /// Number of names.
        entries: usize,
    },
    /// A fixed hit rate, independent of the names, for a published rate.
    Rate {
        /// Hits per hundred lookups.
        percent: u32,
        /// Seed of the choice.
        seed: u64,
    },
}

/// The model of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// The model of kernels: a path is looked up name by name, directories are searched from their
    /// beginning, and inodes, directories, bitmaps and indirect blocks lie in the buffer cache
    /// beside the data.
    Buffered,
    /// The count of the simulator behind UCFS's figures (C15): nothing is buffered except whole
    /// paths in the name cache. A missed lookup reads the inode of each directory of the path and
    /// of the file, and a read then writes the file's inode. A creation writes the inode of each
    /// directory and of the file. Bitmaps and searches cost nothing.
    Counted,
}

/// When data goes to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataWrites {
    /// Before the call returns.
    Through,
    /// Blocks written in sequence are gathered. They are written in the background once the
    /// sequence breaks or fills a request.
    Rows {
        /// True if the rest is written when the file is closed, false if with the next sync.
        at_close: bool,
    },
    /// With the next sync, or when memory is needed.
    Behind,
}

/// Costs of calls apart from the disk, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processor {
    /// Cost of a call.
    pub call: f64,
    /// Cost of copying one byte.
    pub byte: f64,
    /// Cost of passing one entry in a directory search.
    pub entry: f64,
}

impl Parameters {
    /// Returns Solaris UFS as of 1998, on an UltraSPARC of 167 MHz, with `memory` bytes of pages
    /// (M11): blocks of 8 KB that are also pages, runs of 7 blocks, `fsflush` after 30 s, 384 KB of
    /// a file in flight, synchronous metadata. The sizes of the name cache and of the metadata
    /// buffers (`bufhwm`: 2% of memory) follow the system's formulas for 128 MB.
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

    /// Returns the file system of the UCFS and TFS simulators (C15, T5) with `memory` bytes of
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
    /// blocks of 8 KB, runs of 64 KB that are written at once, the rest after 30 s, synchronous
    /// metadata.
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

    /// Returns the same file system mounted asynchronously: no call waits for a write.
    pub fn asynchronous(self) -> Parameters {
        let data = match self.data {
            DataWrites::Through => DataWrites::Behind,
            other => other,
        };
        Parameters { synchronous: false, data, ..self }
    }

    /// Checks that these parameters are consistent and fit a disk of `bytes` bytes.
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
        // The superblock's copy, the bitmaps and the inodes, and as much again for data.
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

/// Error of a file system whose parameters are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid file system parameters: {what}")]
pub struct BadParameters {
    what: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_parameters_are_valid_and_invalid_ones_are_named() {
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
            assert!(error.starts_with("invalid file system parameters: "), "{error}");
        }
        assert!(good.check(1 << 20).is_err());
    }
}
