//! Locality buffers (systems M9): objects of one site are written together.
//!
//! Client requests reach the cache interleaved, and storing objects in that order scatters those of
//! a site. A number of buffers, each for one site, collects them instead. An object goes to its
//! site's buffer. If the site has none and no buffer is empty, the *victim* is written and becomes
//! the site's. The victim is the buffer that was filled least recently (the paper leaves the choice
//! open). A full buffer is written at once.
//!
//! Pure, and generic over the item. A buffer to be written is returned as a batch, whose items are
//! to be placed one after another in the order of arrival, so that they lie side by side.
//!
//! Guarantees: every added item comes out exactly once or is removed by
//! [`LocalityBuffers::retain`]; between calls every buffer holds fewer bytes than its size.

#[cfg(test)]
mod tests;

/// Allowed number of buffers.
pub const COUNTS: std::ops::RangeInclusive<usize> = 8..=128;

/// Default number of buffers.
pub const COUNT: usize = 32;

/// Default size of a buffer, in bytes.
pub const SIZE: u32 = 64 * 1024;

struct Buffer<T> {
    site: u64,
    /// Total size of the items, in bytes.
    bytes: u32,
    /// Time of the last fill, counted in items pushed. Orders the victims.
    filled: u64,
    items: Vec<T>,
}

/// The buffers. See the module documentation.
pub struct LocalityBuffers<T> {
    size: u32,
    count: usize,
    /// Buffers with at least one item. There are so few that a linear search beats a table.
    buffers: Vec<Buffer<T>>,
    pushed: u64,
}

impl<T> LocalityBuffers<T> {
    /// Returns `count` empty buffers (at least one) of `size` bytes each.
    pub fn new(count: usize, size: u32) -> LocalityBuffers<T> {
        assert!(count > 0 && size > 0, "{count} buffers of {size} bytes");
        LocalityBuffers { size, count, buffers: Vec::new(), pushed: 0 }
    }

    /// Adds an item of `bytes` bytes to its site's buffer and appends the batches to be written to
    /// `written`, in the order in which to place them: the victim's if a buffer had to be taken
    /// from another site; then the site's own if the item does not fit behind the buffer's
    /// contents; then the site's own again if the item fills it. An item larger than a buffer is
    /// therefore written alone.
    pub fn push(&mut self, site: u64, bytes: u32, item: T, written: &mut Vec<Vec<T>>) {
        let at = match self.buffers.iter().position(|buffer| buffer.site == site) {
            Some(at) => at,
            None => {
                if self.buffers.len() == self.count {
                    written.extend(self.take_oldest());
                }
                self.buffers.push(Buffer { site, bytes: 0, filled: 0, items: Vec::new() });
                self.buffers.len() - 1
            }
        };
        self.pushed += 1;
        let buffer = &mut self.buffers[at];
        if !buffer.items.is_empty() && buffer.bytes.saturating_add(bytes) > self.size {
            written.push(std::mem::take(&mut buffer.items));
            buffer.bytes = 0;
        }
        buffer.items.push(item);
        buffer.bytes = buffer.bytes.saturating_add(bytes);
        buffer.filled = self.pushed;
        if buffer.bytes >= self.size {
            written.push(self.buffers.swap_remove(at).items);
        }
    }

    /// Takes the buffer that was filled least recently, to write it before it is full. Returns
    /// `None` if all are empty, so repeated calls empty all buffers.
    pub fn take_oldest(&mut self) -> Option<Vec<T>> {
        let ages = self.buffers.iter().enumerate();
        let (at, _) = ages.min_by_key(|(_, buffer)| buffer.filled)?;
        Some(self.buffers.swap_remove(at).items)
    }

    /// Keeps only the items for which `keep` returns true; the others were removed or superseded
    /// before they were written. `bytes` returns the size of an item again.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool, bytes: impl Fn(&T) -> u32) {
        for buffer in &mut self.buffers {
            buffer.items.retain(&mut keep);
            buffer.bytes = buffer.items.iter().map(&bytes).fold(0, u32::saturating_add);
        }
        self.buffers.retain(|buffer| !buffer.items.is_empty());
    }

    /// Returns the waiting items, those of each buffer in the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.buffers.iter().flat_map(|buffer| &buffer.items)
    }

    /// Returns the total size of all waiting items, in bytes.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|buffer| u64::from(buffer.bytes)).sum()
    }

    /// Returns whether no item is waiting.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }
}
