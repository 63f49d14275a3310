//! The shell of a run of pieces: one read, whose pieces are verified in order.

use std::collections::VecDeque;
use std::sync::Arc;

use device::{BufPool, Clock, Device};

use crate::core::{Expected, NeighbourScan, PieceRun, ReadFailure};
use crate::memory::object::Object;
use crate::shell::lookup::{Pinned, Window, examine};
use crate::shell::volume::Volume;

impl<D: Device, C: Clock> Volume<D, C> {
    /// Reads the first of these pieces together with those that follow it on the device. Returns
    /// none if they are to be looked up one by one, or if the first could not be read.
    pub(crate) async fn read_run(&self, run: PieceRun) -> VecDeque<Arc<Object>> {
        let mut pieces = VecDeque::new();
        let plans = self.shared.lock().plan_run(&run, self.clock.unix_seconds() as u32);
        let id = plans.first().and_then(|plan| plan.window);
        let _window = id.map(|id| Window { shared: &self.shared, id });
        let mut plans: VecDeque<Pinned<'_>> =
            plans.into_iter().map(|plan| Pinned::new(&self.shared, plan)).collect();
        let Some(first) = plans.front_mut() else { return pieces };
        if !self.shared.may_read(self.clock.now()) {
            return pieces;
        }
        let extent = first.plan().extent;
        let brief = |len| self.shared.buffers.take_briefly(len);
        let Some((bytes, timing)) = self.read_into(extent, brief).await else { return pieces };
        first.timing(timing);
        let buffer = extent.aligned(self.device.geometry().block).len as usize;
        let buffer = BufPool::room_for(buffer);
        let share = buffer / plans.len();
        for mut pinned in plans {
            // A piece that is only passed on keeps the whole buffer alive, and is charged its share
            // of it. A piece that stays in memory would keep much more than itself, and arena
            // space: it is copied.
            let buffer = if pinned.plan().keep { usize::MAX } else { share };
            let object = examine(&self.shared.secret, pinned.plan(), &bytes, buffer, None);
            match object.map(Arc::new) {
                Ok(piece) if is_of(&piece, &run) => {
                    let nothing = NeighbourScan::NOTHING;
                    let (_, _, lives) = pinned.loaded(&piece, nothing, &bytes, self.now());
                    if !lives {
                        break;
                    }
                    pieces.push_back(piece);
                }
                Ok(_) => {
                    pinned.failed(ReadFailure::OtherKey);
                    break;
                }
                Err(why) => {
                    pinned.failed(why);
                    break;
                }
            }
        }
        pieces
    }
}

fn is_of(piece: &Object, run: &PieceRun) -> bool {
    Expected::Piece.is(piece) && piece.header.object_id == run.object_id
}
