//! Device requests for batches. Writes consist of whole pages. If a batch shares its first or last
//! page with other live records, that page is read first, or taken from memory if it was the last
//! one written.

use device::IoBuf;

use super::batches::{Batch, Part};
use super::run_header::{RUN_HEADER_LEN, RunHeader};
use crate::base::keyed_checksum::Secret;
use crate::base::record::{Chain, Place};
use crate::layout::Run;

/// The page at an end of a batch that the batch does not fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Nothing else in the page is live.
    Free,
    /// The rest of the page is known, with this content.
    Known(Vec<u8>),
    /// The page must be read.
    Read,
}

/// One request, of whole pages.
pub(crate) struct PageWrite {
    pub(crate) batch: Batch,
    /// Bytes from the first slot of the space to the first page, and to the end of the last.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Size of a page, in bytes.
    pub(crate) page: u64,
    /// The first page, if the batch does not begin with it.
    pub(crate) head: Edge,
    /// The last page, if the batch does not end with it and it is not also the first.
    pub(crate) tail: Edge,
    /// Size of a slot, in bytes.
    pub(crate) slot_bytes: u64,
}

/// The requests that the background writes next, concurrently.
pub(crate) struct PageJob {
    pub(crate) writes: Vec<PageWrite>,
}

pub(crate) struct PageDone {
    /// True if it reached the device.
    pub(crate) whole: bool,
    pub(crate) last_page: Vec<u8>,
    /// Number of pages read for the request.
    pub(crate) reads: u64,
}

impl PageWrite {
    /// Returns the size of the slots in the request, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.batch.slots.len) * self.slot_bytes
    }

    /// Returns the offsets of the pages to read, from the first slot of the space: first and last.
    pub(crate) fn wanted(&self) -> [Option<u64>; 2] {
        let wants = |edge: &Edge| *edge == Edge::Read;
        [wants(&self.head).then_some(self.from), wants(&self.tail).then(|| self.to - self.page)]
    }

    /// Builds the bytes to write. `pages` are the pages that [`PageWrite::wanted`] requested.
    pub(crate) fn build(&self, secret: &Secret, pages: [Option<&[u8]>; 2]) -> IoBuf {
        let mut buf = IoBuf::zeroed((self.to - self.from) as usize);
        let ends = [0, buf.len() - self.page as usize];
        for ((edge, read), at) in [&self.head, &self.tail].into_iter().zip(pages).zip(ends) {
            let known = match edge {
                Edge::Known(bytes) => Some(&bytes[..]),
                Edge::Read => read,
                Edge::Free => None,
            };
            if let Some(known) = known {
                buf[at..at + known.len()].copy_from_slice(known);
            }
        }
        for part in &self.batch.parts {
            let at = u64::from(part.slots.first) * self.slot_bytes - self.from;
            let len = u64::from(part.slots.len) * self.slot_bytes;
            self.fill(secret, part, &mut buf[at as usize..(at + len) as usize]);
        }
        buf
    }

    /// Writes a part of a record into its slots.
    fn fill(&self, secret: &Secret, part: &Part, out: &mut [u8]) {
        let of = &part.of;
        let run = of.runs[part.run];
        let skip = u64::from(part.slots.first - run.first) * self.slot_bytes;
        let len = of.record.len();
        if of.runs.len() == 1 && skip == 0 && out.len() >= len {
            of.record.write_to(secret, of.place, out);
            out[len..].fill(0);
            return;
        }
        let mut whole = vec![0; len];
        of.record.write_chained(secret, of.place, chain(&of.runs), &mut whole);
        let bytes = run_bytes(secret, of.place, &of.runs, part.run, self.slot_bytes, &whole);
        let rest = bytes.get(skip as usize..).unwrap_or_default();
        let taken = rest.len().min(out.len());
        out[..taken].copy_from_slice(&rest[..taken]);
        out[taken..].fill(0);
    }
}

/// Returns the chain that a record's head stores for its runs.
fn chain(runs: &[Run]) -> Chain {
    match runs {
        [first, second, ..] => {
            // A record is shorter than 4 MiB: some thousands of slots.
            let slots = u16::try_from(first.len).expect("a run is no longer than its record");
            Chain { slots, next: second.first }
        }
        _ => Chain::default(),
    }
}

/// Returns the content of one run of a record whose bytes are `whole`.
fn run_bytes(
    secret: &Secret,
    place: Place,
    runs: &[Run],
    number: usize,
    slot_bytes: u64,
    whole: &[u8],
) -> Vec<u8> {
    let room = |number: usize| {
        let header = if number == 0 { 0 } else { RUN_HEADER_LEN };
        (u64::from(runs[number].len) * slot_bytes) as usize - header
    };
    let start: usize = (0..number).map(room).sum();
    let end = (start + room(number)).min(whole.len());
    let mut bytes = Vec::with_capacity(RUN_HEADER_LEN + end - start);
    if number > 0 {
        let next = runs.get(number + 1).map(|run| run.first);
        let header = RunHeader { sequence: place.incarnation, run: runs[number], next };
        bytes.extend_from_slice(&header.encode(secret));
    }
    bytes.extend_from_slice(&whole[start..end]);
    bytes
}

/// Joins the bytes of a record from those of its runs, as read. Returns `None` if a run's header
/// does not match.
pub(crate) fn assemble(
    secret: &Secret,
    sequence: u64,
    runs: &[Run],
    parts: &[bytes::Bytes],
) -> Option<bytes::Bytes> {
    let (first, further) = parts.split_first()?;
    let mut whole = first.to_vec();
    for (number, part) in (1..).zip(further) {
        let header = RunHeader::decode(secret, runs[number].first, part)?;
        let next = runs.get(number + 1).map(|run| run.first);
        if header != (RunHeader { sequence, run: runs[number], next }) {
            return None;
        }
        whole.extend_from_slice(&part[RUN_HEADER_LEN..]);
    }
    Some(whole.into())
}
