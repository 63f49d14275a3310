//! Locality buffers (systems M9): the objects of one site are written together.
//!
//! Clients' requests reach the cache interleaved, and storing objects in that order scatters those
//! of a site. A number of buffers, each of one site, collects them instead. An object goes to its
//! site's buffer. Without one, and with none empty, the *victim*, the buffer that was filled least
//! recently (the paper leaves it open), is written and becomes the site's. A full buffer is written
//! at once.
//!
//! Pure, and generic in the item: a buffer to be written is returned as a batch, whose items are to
//! be placed one after another in the order in which they came, so that they lie side by side. It
//! promises that every item that was added comes out exactly once or is removed by
//! [`LocalityBuffers::retain`], and that every buffer holds less than its size between two calls.

#[cfg(test)]
mod tests;

/// How many buffers there may be.
pub const COUNTS: std::ops::RangeInclusive<usize> = 8..=128;

/// How many there are unless something else is chosen.
pub const COUNT: usize = 32;

/// Bytes of a buffer unless something else is chosen.
pub const SIZE: u32 = 64 * 1024;

struct Buffer<T> {
    site: u64,
    /// Bytes of the items.
    bytes: u32,
    /// When it was filled last, counted in items; orders the victims.
    filled: u64,
    items: Vec<T>,
}

/// The buffers. See the head of the file.
pub struct LocalityBuffers<T> {
    size: u32,
    count: usize,
    /// Those with an item. So few that looking through them beats a table.
    buffers: Vec<Buffer<T>>,
    pushed: u64,
}

impl<T> LocalityBuffers<T> {
    /// `count` empty buffers (at least one) of `size` bytes each.
    pub fn new(count: usize, size: u32) -> LocalityBuffers<T> {
        assert!(count > 0 && size > 0, "{count} buffers of {size} bytes");
        LocalityBuffers { size, count, buffers: Vec::new(), pushed: 0 }
    }

    /// Adds an item of `bytes` bytes to its site's buffer and appends to `written` the batches that
    /// this sends out, in the order in which they are to be placed: the victim's if a buffer had to
    /// be taken from another site, then the site's own when the item does not fit behind what it
    /// holds, and again its own when the item fills it. So an item larger than a buffer goes out
    /// alone.
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

    /// Takes the buffer that was filled least recently, to write it before it is full. `None` when
    /// all are empty; so it empties them all, one after another.
    pub fn take_oldest(&mut self) -> Option<Vec<T>> {
        let ages = self.buffers.iter().enumerate();
        let (at, _) = ages.min_by_key(|(_, buffer)| buffer.filled)?;
        Some(self.buffers.swap_remove(at).items)
    }

    /// Keeps only the items for which `keep` holds: the others were removed or superseded before
    /// they were written. `bytes` says again what an item takes.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool, bytes: impl Fn(&T) -> u32) {
        for buffer in &mut self.buffers {
            buffer.items.retain(&mut keep);
            buffer.bytes = buffer.items.iter().map(&bytes).fold(0, u32::saturating_add);
        }
        self.buffers.retain(|buffer| !buffer.items.is_empty());
    }

    /// Returns the items that wait, of each buffer in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.buffers.iter().flat_map(|buffer| &buffer.items)
    }

    /// Returns the bytes of all items that wait.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|buffer| u64::from(buffer.bytes)).sum()
    }

    /// True without an item.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }
}
