//! Answers to followers: the purges since a position, from memory or from blocks that were read.

use device::Extent;

use crate::base::logged_purge::{LoggedPurge, PurgePosition, PurgesSince};
use crate::format::purge_log::block::Block;
use crate::format::purge_log::reading::Reading;
use crate::format::purge_log::{PurgeLog, UNKNOWN};

/// Maximum number of purges returned at a time.
pub(super) const TOLD_AT_ONCE: usize = 256;

/// A follower's question, while blocks are read for the answer.
pub(crate) struct PurgeQuestion {
    /// `None`: a follower without a position.
    position: Option<PurgePosition>,
    /// Blocks with a smaller number are of no use: they, or blocks behind them, cannot be read.
    usable_from: u64,
    pub(crate) reading: Reading,
}

/// The next step to an answer.
pub(crate) enum PurgeStep {
    Told(PurgesSince),
    /// Read this extent, then call [`Reading::take`].
    Read(Extent),
}

impl PurgeQuestion {
    pub(crate) fn new(position: Option<PurgePosition>) -> PurgeQuestion {
        PurgeQuestion { position, usable_from: 0, reading: Reading::default() }
    }
}

impl PurgeLog {
    /// Takes the next step to tell the durable purges since the position of a question.
    pub(crate) fn since(&mut self, question: &mut PurgeQuestion) -> PurgeStep {
        self.learn(question);
        let here = self.end();
        let known = question
            .position
            .filter(|position| position.log == here.log && position.number <= here.number);
        let too_old = PurgeStep::Told(PurgesSince::TooOld(here));
        let Some(PurgePosition { number, .. }) = known else { return too_old };
        let block = match self.find(number, question.usable_from) {
            Ok(Some(block)) => block,
            Ok(None) => return too_old,
            Err(unknown) => {
                return PurgeStep::Read(self.read(&mut question.reading, unknown, unknown + 1));
            }
        };
        let Some(blocks) = self.blocks_from(&question.reading, block) else {
            let memory = self.first_in_memory();
            return PurgeStep::Read(self.read(&mut question.reading, block, memory));
        };
        tell(blocks, number, here).map_or(too_old, PurgeStep::Told)
    }

    /// Notes where the blocks begin that were read for a question. Keeps those of this log.
    fn learn(&mut self, question: &mut PurgeQuestion) {
        let PurgeQuestion { reading: Reading { numbers, blocks }, usable_from, .. } = question;
        if numbers.is_empty() {
            return;
        }
        let ring = self.tail.ring;
        let ours = blocks.iter().take_while(|block| {
            block.ring == ring && self.note_first(block.number, block.own) && {
                self.note_first(block.number + 1, block.own_end())
            }
        });
        let ours = ours.count();
        blocks.truncate(ours);
        if ours == 0 {
            *usable_from = numbers.start + 1;
        }
        *numbers = 0..0;
    }

    /// Returns the number of the oldest block that the ring may hold.
    pub(super) fn oldest(&self) -> u64 {
        self.tail.number + 1 - self.firsts.len() as u64
    }

    /// Notes how many own purges precede a block. Returns false if the block is not part of the
    /// log, because another one begins or is known to begin there.
    fn note_first(&mut self, block: u64, first: u64) -> bool {
        let index = block.checked_sub(self.oldest());
        let known = index.and_then(|index| self.firsts.get_mut(index as usize));
        let Some(known) = known else { return false };
        if *known == UNKNOWN {
            *known = first;
        }
        *known == first
    }

    /// Returns the number of the block with purge `number`, or of the last one if `number` is the
    /// next purge's. Blocks before `usable_from` do not count. Returns `None` if the log does not
    /// reach back that far.
    ///
    /// # Errors
    /// The number of a block that must be read.
    fn find(&self, number: u64, usable_from: u64) -> Result<Option<u64>, u64> {
        let oldest = self.oldest();
        let start = oldest.max(usable_from);
        let (mut low, mut high) = (start, self.tail.number + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.firsts.get((middle - oldest) as usize).copied().unwrap_or(UNKNOWN) {
                UNKNOWN => return Err(middle),
                first if first <= number => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low.checked_sub(1).filter(|block| *block >= start))
    }
}

/// Returns the purges from number `from` up to the end of the log that `blocks` tell, the first of
/// which has it; `None` if one is not known.
fn tell<'a>(
    blocks: impl Iterator<Item = &'a Block>,
    from: u64,
    here: PurgePosition,
) -> Option<PurgesSince> {
    let logged = blocks.flat_map(Block::own_purges).skip_while(|(number, _)| *number < from);
    let durable = logged.take_while(|(number, _)| *number < here.number);
    let mut purges: Vec<LoggedPurge> = Vec::new();
    for (number, purge) in durable.take(TOLD_AT_ONCE) {
        if number != from + purges.len() as u64 {
            return None;
        }
        purges.push(purge?);
    }
    let at = from + purges.len() as u64;
    let is_told = !purges.is_empty() || at == here.number;
    is_told.then_some(PurgesSince::Purges(purges, PurgePosition { log: here.log, number: at }))
}
