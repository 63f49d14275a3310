//! The encoding of the cluster table in a checkpoint.
//!
//! Little-endian, without padding. The header is the number of clusters (u32), the next incarnation
//! (u64) and the current disk position (u32). Each cluster follows with its state (u8: 0 free, 1
//! bad, 2 open, 3 on disk). An open cluster, or one on disk, also has its incarnation (u64),
//! references (u16), last access (u32), live records (u32), dead bytes (u32), number of dead
//! records (u32) and their offsets in granules (u32 each, ascending). A cluster that was given up
//! is encoded as free, because the checkpoint itself makes durable what it waits for. The checksum
//! is the checkpoint's.

use std::ops::Range;

use super::{ClusterTable, Policy, State};
use crate::base::limits::ClusterId;

/// Valid next incarnations. More than 2^62 openings are impossible.
const INCARNATIONS: Range<u64> = 1..1 << 62;

/// The reason why bytes are not a valid cluster table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadTable {
    /// The bytes end too early, or continue after the last cluster.
    Length,
    /// The number of clusters differs from the device's.
    Clusters,
    /// The next incarnation or the current disk position is invalid.
    Header,
    /// This cluster's entry is inconsistent.
    Entry(ClusterId),
}

impl ClusterTable {
    /// Appends the persistent part of the table to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_header(out);
        self.encode_clusters(0..self.clusters(), out);
    }

    pub(crate) fn encode_header(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.clusters().to_le_bytes());
        out.extend_from_slice(&self.next_incarnation.to_le_bytes());
        out.extend_from_slice(&self.position.to_le_bytes());
    }

    /// Appends some of the clusters, so that a large table can be encoded in steps.
    pub(crate) fn encode_clusters(&self, clusters: Range<ClusterId>, out: &mut Vec<u8>) {
        for cluster in clusters {
            let at = cluster as usize;
            let state = match self.states[at] {
                State::Free | State::Quarantined | State::Draining => 0,
                State::Bad => 1,
                State::Open | State::Writing => 2,
                State::OnDisk | State::OnDiskAndInMemory => 3,
            };
            out.push(state);
            if state < 2 {
                continue;
            }
            out.extend_from_slice(&self.incarnations[at].to_le_bytes());
            out.extend_from_slice(&self.references[at].to_le_bytes());
            out.extend_from_slice(&self.last_access[at].to_le_bytes());
            out.extend_from_slice(&self.live_records[at].to_le_bytes());
            out.extend_from_slice(&self.dead_bytes[at].to_le_bytes());
            out.extend_from_slice(&self.dead_counts[at].to_le_bytes());
            if self.dead_counts[at] > 0 {
                self.dead_records(cluster)
                    .for_each(|offset| out.extend_from_slice(&offset.to_le_bytes()));
            }
        }
    }

    /// Decodes the table of a device with `clusters` clusters of `size` bytes.
    ///
    /// # Errors
    /// If the bytes were not written by [`ClusterTable::encode`] for such a device.
    pub(crate) fn decode(
        bytes: &[u8],
        clusters: u32,
        size: u32,
        policy: Policy,
    ) -> Result<ClusterTable, BadTable> {
        let mut input = Input(bytes);
        if u32::from_le_bytes(input.take()?) != clusters {
            return Err(BadTable::Clusters);
        }
        let mut table = ClusterTable::new(clusters, size, policy);
        table.next_incarnation = u64::from_le_bytes(input.take()?);
        table.position = u32::from_le_bytes(input.take()?);
        if table.position >= clusters.max(1) || !INCARNATIONS.contains(&table.next_incarnation) {
            return Err(BadTable::Header);
        }
        for cluster in 0..clusters {
            match u8::from_le_bytes(input.take()?) {
                0 => {}
                1 => table.set_state(cluster, State::Bad),
                2 => table.decode_in_use(cluster, State::Open, &mut input)?,
                3 => table.decode_in_use(cluster, State::OnDisk, &mut input)?,
                _ => return Err(BadTable::Entry(cluster)),
            }
        }
        if !input.0.is_empty() {
            return Err(BadTable::Length);
        }
        table.rebuild();
        Ok(table)
    }

    fn decode_in_use(
        &mut self,
        cluster: ClusterId,
        state: State,
        input: &mut Input<'_>,
    ) -> Result<(), BadTable> {
        let at = cluster as usize;
        self.incarnations[at] = u64::from_le_bytes(input.take()?);
        self.references[at] = u16::from_le_bytes(input.take()?);
        self.last_access[at] = u32::from_le_bytes(input.take()?);
        self.live_records[at] = u32::from_le_bytes(input.take()?);
        self.dead_bytes[at] = u32::from_le_bytes(input.take()?);
        let dead = u32::from_le_bytes(input.take()?);
        let mut last = None;
        for _ in 0..dead {
            let offset = u32::from_le_bytes(input.take()?);
            if last.is_some_and(|last| last >= offset) || offset >= self.size {
                return Err(BadTable::Entry(cluster));
            }
            last = Some(offset);
            self.dead.insert((cluster, offset));
        }
        self.dead_counts[at] = dead;
        let incarnation = self.incarnations[at];
        let possible = 1..self.next_incarnation;
        if !possible.contains(&incarnation) || self.dead_bytes[at] > self.size {
            return Err(BadTable::Entry(cluster));
        }
        self.set_state(cluster, state);
        Ok(())
    }
}

/// The bytes that remain to be decoded.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadTable> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(BadTable::Length)?;
        self.0 = rest;
        Ok(*first)
    }
}
