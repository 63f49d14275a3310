//! Runs of pieces: pieces of a large object that are adjacent on the device and read with one
//! request. A read costs as much CPU time as some hundred kilobytes of its bytes (submit, complete,
//! await). Therefore, with the read unit `auto`, each read takes several pieces for a reader that
//! makes fast progress (docs/decisions/0018-large-bodies.md).
//!
//! The pieces of a run share one buffer, which lives until the last of them is sent. A piece that
//! enters the memory tier is copied out of the buffer, because it stays there for longer.

use std::ops::Range;

use device::Extent;

use crate::base::digest::Digest;
use crate::base::record::RecordKind;
use crate::config::lookup_options::LookupOptions;
use crate::config::options::ReadUnit;
use crate::core::read_plan::ReadPlan;
use crate::core::state::Core;
use crate::index::Slot;
use crate::space::slots::SlotSpace;

/// Divisor of the bytes of a run's pieces: gaps between them may take this share, and are read too.
const APART: u64 = 8;

/// Pieces of one version for a reader to take at once.
pub(crate) struct PieceRun {
    pub(crate) object_id: u64,
    /// Length of the whole body in bytes.
    pub(crate) object_len: u64,
    pub(crate) numbers: Range<u32>,
    pub(crate) options: LookupOptions,
}

impl Core {
    /// Plans one read for the first of these pieces and for those that follow it on the device;
    /// `now` is in unix seconds. The plans share one extent. Returns an empty list unless there are
    /// at least two; each piece is then looked up by itself.
    pub(crate) fn plan_run(&mut self, run: &PieceRun, now: u32) -> Vec<ReadPlan> {
        let may_read = self.online()
            && self.options.read_unit == ReadUnit::Auto
            && !run.options.memory_only()
            && !self.placement.space.slots().is_some_and(SlotSpace::assembling);
        let found = if may_read { self.adjacent_pieces(run) } else { Vec::new() };
        let (Some((first, _)), Some((last, _))) = (found.first(), found.last()) else {
            return Vec::new();
        };
        let offset = first.record.offset;
        let extent = Extent { offset, len: last.record.end() - offset };
        if found.len() < 2 || self.reads.covering(first.record).is_some() {
            return Vec::new();
        }
        self.reads.count_window();
        // Other readers of these pieces wait for this read.
        let mut window = Some(self.reads.begin_read(extent));
        let mut plans = Vec::with_capacity(found.len());
        for (plan, slot) in found {
            self.placement.touch(slot, now);
            self.placement.pin(slot.position);
            let keep = !run.options.is_exclusive()
                && run.object_len <= self.memory.share_max()
                && self.enters_memory(&plan.digest, RecordKind::Piece, plan.record.len as usize);
            plans.push(ReadPlan { extent, window: window.take(), keep, ..plan });
        }
        plans
    }

    /// Returns the pieces of a run from its first on, as long as each is on the device only and
    /// behind the one before: unpinned plans to read each.
    fn adjacent_pieces(&mut self, run: &PieceRun) -> Vec<(ReadPlan, Slot)> {
        let mut found: Vec<(ReadPlan, Slot)> = Vec::new();
        let mut bytes = 0;
        for number in run.numbers.clone() {
            let digest = self.digester.piece(run.object_id, number);
            let Some((plan, slot)) = self.plan_piece(digest) else { break };
            let record = plan.record;
            bytes += record.len;
            if let (Some((first, _)), Some((last, _))) = (found.first(), found.last())
                && (record.offset <= last.record.offset
                    || record.end() - first.record.offset > bytes + bytes / APART)
            {
                break;
            }
            found.push((plan, slot));
        }
        found
    }

    /// Returns the plan to read a piece if it is in one run on the device, and neither in memory
    /// nor being sent.
    fn plan_piece(&mut self, digest: Digest) -> Option<(ReadPlan, Slot)> {
        if self.memory.tier.peek(&digest).is_some() {
            return None;
        }
        let slot = self.index.get(&digest).filter(|slot| !slot.refreshed)?;
        let elsewhere = self.placement.space.unwritten(slot.position).is_some()
            || self.memory.in_transit.get(&digest).is_some()
            || self.read_ahead_of(&digest, slot).is_some();
        let place = self.placement.place_at(slot.position).filter(|_| !elsewhere)?;
        let location = self.placement.locate(slot);
        let whole = location.split.is_none();
        whole.then(|| (ReadPlan::of_held(digest, place, location), slot))
    }
}
