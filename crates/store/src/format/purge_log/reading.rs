//! Blocks that are read from the device for an answer.

use std::ops::Range;

use bytes::Bytes;
use device::Extent;

use crate::base::keyed_checksum::Secret;
use crate::format::device_layout::BLOCK;
use crate::format::purge_log::PurgeLog;
use crate::format::purge_log::block::{Area, Block};

/// Maximum number of blocks read at a time.
const READ_AT_ONCE: u64 = 16;

/// Blocks that are being read, or were.
#[derive(Default)]
pub(crate) struct Reading {
    /// Numbers of the blocks that are being read.
    pub(super) numbers: Range<u64>,
    /// The intact ones of the blocks that were read last, up to the first that is not.
    pub(super) blocks: Vec<Block>,
}

impl Reading {
    /// Takes the bytes that were read from the log in the area `area`; `None` when that failed.
    pub(crate) fn take(&mut self, secret: &Secret, area: Extent, bytes: Option<&Bytes>) {
        let area = Area(area);
        let places = bytes.map_or(&[][..], |bytes| &bytes[..]).chunks_exact(BLOCK as usize);
        let decode = |(number, bytes)| {
            Block::decode(secret, area.place(number), bytes).filter(|block| block.number == number)
        };
        self.blocks = self.numbers.clone().zip(places).map_while(decode).collect();
    }
}

impl PurgeLog {
    /// Begins to read blocks from number `from` on, before `to`; returns the extent to read.
    pub(super) fn read(&self, reading: &mut Reading, from: u64, to: u64) -> Extent {
        let run = self.area.first_run(from..to.min(from + READ_AT_ONCE));
        let extent = self.area.extent(self.area.place(run.start), run.end - run.start);
        *reading = Reading { numbers: run, blocks: Vec::new() };
        extent
    }

    /// Returns the blocks from number `from` on that are in memory, or were read; `None` if the
    /// block is neither.
    pub(super) fn blocks_from<'a>(
        &'a self,
        reading: &'a Reading,
        from: u64,
    ) -> Option<Box<dyn Iterator<Item = &'a Block> + 'a>> {
        let memory = self.first_in_memory();
        if let Some(skipped) = from.checked_sub(memory) {
            let blocks = self.pending.iter().chain([&self.tail]);
            return Some(Box::new(blocks.skip(skipped as usize)));
        }
        let read = reading.blocks.first().filter(|block| block.number == from);
        read.map(|_| Box::new(reading.blocks.iter()) as _)
    }
}
