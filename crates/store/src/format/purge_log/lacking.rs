//! Answers to nodes that lack purges of any maker: where the first of them lies is found by the
//! numbers at the start of each group, then the log is told from there.

use std::collections::BTreeMap;
use std::ops::Range;

use device::Extent;

use crate::base::logged_purge::{MadePurge, PurgeMaker, PurgeRange, PurgesLacking};
use crate::format::purge_log::PurgeLog;
use crate::format::purge_log::block::Block;
use crate::format::purge_log::entry::{self, Entry, Purge};
use crate::format::purge_log::reading::Reading;

/// Maximum number of bytes of purges returned at a time, but at least one purge.
const TOLD_BYTES: usize = 256 << 10;

/// The purges that a node lacks, while blocks are read for the answer.
pub(crate) struct LackingQuestion {
    /// For each maker the number of the last purge that is not lacking, and of the last that is.
    ranges: BTreeMap<PurgeMaker, (u64, u64)>,
    /// Numbers of the groups among which the last one is sought before which nothing is lacking;
    /// `None` until the first step.
    groups: Option<Range<u64>>,
    /// Number of the block to tell next.
    block: Option<u64>,
    told: Vec<MadePurge>,
    bytes: usize,
    pub(crate) reading: Reading,
}

/// The next step to an answer.
pub(crate) enum LackingStep {
    Told(PurgesLacking),
    /// Read this extent, then call [`Reading::take`].
    Read(Extent),
}

impl LackingQuestion {
    pub(crate) fn new(ranges: &[PurgeRange]) -> LackingQuestion {
        let lacking = ranges.iter().filter(|range| range.after < range.through);
        let of_maker = |range: &PurgeRange| (range.maker.clone(), (range.after, range.through));
        LackingQuestion {
            ranges: lacking.map(of_maker).collect(),
            groups: None,
            block: None,
            told: Vec::new(),
            bytes: 0,
            reading: Reading::default(),
        }
    }

    /// Takes in a logged purge. Returns `None` if it is lacking and cannot be told.
    fn take(&mut self, maker: PurgeMaker, number: u64, purge: Purge) -> Option<()> {
        let range = self.ranges.get_mut(&maker);
        let range = range.filter(|(after, through)| (*after + 1..=*through).contains(&number));
        let Some((after, _)) = range else { return Some(()) };
        if number != *after + 1 {
            return None;
        }
        *after = number;
        let made = MadePurge { maker, number, purge: purge? };
        let entry = Entry::Made(made.maker.clone(), number, Some(made.purge.clone()));
        self.bytes += entry::encode(&entry).len();
        self.told.push(made);
        Some(())
    }

    fn is_complete(&self) -> bool {
        self.ranges.values().all(|(after, through)| after >= through)
    }
}

impl PurgeLog {
    /// Takes the next step to tell the durable purges that a node lacks.
    pub(crate) fn lacking(&self, question: &mut LackingQuestion) -> LackingStep {
        let mut ranges = question.ranges.iter();
        if !ranges.all(|(maker, (_, through))| self.durable_of(maker) >= *through) {
            return LackingStep::Told(PurgesLacking::TooOld);
        }
        let told = match self.find_group(question) {
            Ok(Some(())) => self.tell_blocks(question),
            Ok(None) => Ok(None),
            Err(extent) => Err(extent),
        };
        match told {
            Ok(Some(())) => {
                LackingStep::Told(PurgesLacking::Purges(std::mem::take(&mut question.told)))
            }
            Ok(None) => LackingStep::Told(PurgesLacking::TooOld),
            Err(extent) => LackingStep::Read(extent),
        }
    }

    /// Finds the block from which on purges are told. Returns `None` if the log does not reach back
    /// that far.
    ///
    /// # Errors
    /// The extent to read first.
    fn find_group(&self, question: &mut LackingQuestion) -> Result<Option<()>, Extent> {
        let group = self.area.group();
        let all = self.oldest().div_ceil(group)..self.tail.number / group + 1;
        let mut groups = question.groups.clone().unwrap_or(all);
        while question.block.is_none() || !groups.is_empty() {
            if groups.is_empty() {
                return Ok(None);
            }
            let middle = groups.start + (groups.end - groups.start) / 2;
            let start = middle * group;
            question.groups = Some(groups.clone());
            let Some(blocks) = self.blocks_or_read(&mut question.reading, start)? else {
                // Purges before it cannot be told up to the end.
                (groups.start, question.block) = (middle + 1, None);
                continue;
            };
            if self.precedes(blocks, &question.ranges) {
                (groups.start, question.block) = (middle + 1, Some(start));
            } else {
                groups.end = middle;
            }
        }
        question.groups = Some(groups);
        Ok(Some(()))
    }

    /// Returns whether the group that begins with `blocks` begins before all purges of `ranges`.
    fn precedes<'a>(
        &self,
        blocks: impl Iterator<Item = &'a Block>,
        ranges: &BTreeMap<PurgeMaker, (u64, u64)>,
    ) -> bool {
        let own_maker = self.own_maker();
        let mut blocks = blocks.peekable();
        let own = blocks.peek().map_or(0, |block| block.own);
        let stated = blocks.flat_map(Block::entries).map_while(|(_, entry)| match entry {
            Entry::Reached(maker, number) => Some((maker, number)),
            _ => None,
        });
        let mut stated = stated.chain([(own_maker, own)]);
        stated.all(|(maker, number)| ranges.get(&maker).is_none_or(|(after, _)| number <= *after))
    }

    /// Tells blocks until everything is told or the answer is full. Returns `None` if something is
    /// missing.
    ///
    /// # Errors
    /// The extent to read first.
    fn tell_blocks(&self, question: &mut LackingQuestion) -> Result<Option<()>, Extent> {
        while !question.is_complete() && question.bytes < TOLD_BYTES {
            let Some(at) = question.block.filter(|at| *at <= self.tail.number) else {
                return Ok(None);
            };
            let mut reading = std::mem::take(&mut question.reading);
            let blocks = self.blocks_or_read(&mut reading, at);
            let told = blocks.map(|blocks| self.tell_all(question, blocks?));
            match told {
                Ok(Some(())) => {}
                Ok(None) => return Ok(None),
                Err(extent) => {
                    question.reading = reading;
                    return Err(extent);
                }
            }
        }
        Ok(Some(()))
    }

    /// Tells consecutive blocks; `None` if something is missing.
    fn tell_all<'a>(
        &self,
        question: &mut LackingQuestion,
        blocks: impl Iterator<Item = &'a Block>,
    ) -> Option<()> {
        for block in blocks {
            let mut own = block.own;
            for (at, entry) in block.entries() {
                if at >= self.durable.entries {
                    return question.is_complete().then_some(());
                }
                match entry {
                    Entry::Own(purge) => {
                        own += 1;
                        question.take(self.own_maker(), own, purge)?;
                    }
                    Entry::Made(maker, number, purge) => question.take(maker, number, purge)?,
                    Entry::Reached(..) => {}
                }
            }
            question.block = Some(block.number + 1);
            if question.bytes >= TOLD_BYTES {
                break;
            }
        }
        Some(())
    }

    /// Returns the blocks from number `from` on that are in memory or were read; `None` if the
    /// block could not be read.
    ///
    /// # Errors
    /// The extent to read first.
    fn blocks_or_read<'a>(
        &'a self,
        reading: &'a mut Reading,
        from: u64,
    ) -> Result<Option<Box<dyn Iterator<Item = &'a Block> + 'a>>, Extent> {
        let is_read = reading.numbers.start == from && !reading.numbers.is_empty();
        let memory = self.first_in_memory();
        if from < memory && !is_read {
            return Err(self.read(reading, from, memory));
        }
        let ring = self.tail.ring;
        let ours = reading.blocks.iter().take_while(|block| block.ring == ring).count();
        reading.blocks.truncate(ours);
        Ok(self.blocks_from(reading, from))
    }
}
