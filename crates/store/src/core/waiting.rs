//! Wakes those who wait, when there is what they wait for.

use crate::config::options::WritePolicy;
use crate::core::state::Core;
use crate::core::waiters::Offer;
use crate::space::Space;
use crate::space::cluster_table::State;

impl Core {
    /// Wakes those whose moment has come: something changed.
    pub(crate) fn wake(&mut self) {
        let offer = Offer {
            written: self.journal.written(),
            durable: self.journal.durable(),
            room: self.room_to_wait(),
            over: !self.online(),
        };
        self.waiters.wake(&offer);
    }

    /// Bytes that may be placed now: never less than what an insertion would find.
    fn room_to_wait(&self) -> usize {
        let placed = match &self.space {
            Space::Clusters(space) => {
                space.table.count(State::Free) > 0 || space.appender.has_room(&self.areas, 1)
            }
            Space::Slots(_) => true,
        };
        // With write-on-evict, and in locality buffers, insertions stop at half of it.
        let late = self.options.write_policy == WritePolicy::OnEvict || self.gathering.is_some();
        let most = if late { self.unwritten_max / 2 + 1 } else { self.unwritten_max };
        if placed { most.saturating_sub(self.space.unwritten_bytes()) } else { 0 }
    }
}
