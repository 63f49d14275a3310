//! Reading a device without a core: shared by opening and inspection.

use bytes::Bytes;
use device::{Device, Extent, IoBuf};

use crate::base::keyed_checksum::Secret;
use crate::base::limits::STEP;
use crate::format::checkpoint::Checkpoint;
use crate::format::device_layout::{Areas, BLOCK};
use crate::format::index_dump;
use crate::format::label_filters_dump::Head;
use crate::format::superblock::Superblock;
use crate::index::Index;
use crate::purge::label_filters::LabelFilters;

const READ_ATTEMPTS: u32 = 3;

/// Reads extents of any alignment. Failures are returned as `None`.
pub(crate) struct Reader<'a, D: Device> {
    pub(crate) device: &'a D,
}

impl<D: Device> Reader<'_, D> {
    /// Reads an extent. Retries, because a failed read may cost the whole cache.
    pub(crate) async fn read(&self, extent: Extent) -> Option<Bytes> {
        for _ in 0..READ_ATTEMPTS {
            if let Ok(bytes) = read_aligned(self.device, IoBuf::zeroed, extent).await {
                return Some(bytes);
            }
        }
        None
    }

    pub(crate) async fn read_checkpoint(
        &self,
        secret: &Secret,
        slot: Extent,
    ) -> Option<Checkpoint> {
        let first = self.read(Extent { offset: slot.offset, len: BLOCK }).await?;
        let len = Checkpoint::encoded_len(&first).filter(|len| *len <= slot.len)?;
        let bytes = self.read_steps(Extent { offset: slot.offset, len }).await?;
        Checkpoint::decode(secret, &bytes)
    }

    /// Reads a large structure in steps.
    pub(crate) async fn read_steps(&self, extent: Extent) -> Option<Vec<u8>> {
        if extent.end() > self.device.geometry().len {
            return None;
        }
        let mut bytes = Vec::with_capacity(extent.len as usize);
        while (bytes.len() as u64) < extent.len {
            let at = bytes.len() as u64;
            let len = (extent.len - at).min(STEP as u64);
            bytes.extend_from_slice(&self.read(Extent { offset: extent.offset + at, len }).await?);
        }
        Some(bytes)
    }

    /// Reads the index dump of an orderly stop into `index`. Returns false if it is incomplete.
    pub(crate) async fn load_index(
        &self,
        secret: &Secret,
        areas: &Areas,
        index: &mut Index,
    ) -> bool {
        let area = areas.index_dump;
        let Some(header) = self.read(Extent { offset: area.offset, len: BLOCK }).await else {
            return false;
        };
        let Some(header) = index_dump::Header::decode(secret, &header) else { return false };
        if header.kind != index.kind()
            || header.buckets != index.bucket_count() as u64
            || header.dump_len() > area.len
        {
            return false;
        }
        for number in 0..header.checksums.len() {
            if !self.load_step(secret, areas, index, &header, number).await {
                index.clear();
                return false;
            }
        }
        true
    }

    /// Reads the label filters that the orderly stop of the superblock's generation saved: at most
    /// `bytes` bytes in all, of labels read by the rules of `version`.
    pub(crate) async fn load_label_filters(
        &self,
        superblock: &Superblock,
        version: u64,
        bytes: u64,
    ) -> Option<LabelFilters> {
        let (areas, secret) = (&superblock.areas, &superblock.secret);
        let area = areas.index_dump;
        let header = self.read(Extent { offset: area.offset, len: BLOCK }).await?;
        let at = area.offset + index_dump::Header::decode(secret, &header)?.dump_len();
        if at + BLOCK > area.end() {
            return None;
        }
        let first = self.read(Extent { offset: at, len: BLOCK }).await?;
        let len = Head::encoded_len(&first).filter(|len| at + len <= area.end())?;
        let head = self.read_steps(Extent { offset: at, len }).await?;
        let clusters = if superblock.layout.is_none() { areas.clusters } else { 0 };
        let generation = superblock.generation;
        let (head, mut label_filters) =
            Head::decode(secret, generation, version, bytes, clusters, &head)?;
        if at + head.dump_len() > area.end() {
            return None;
        }
        for (step, checksum) in head.steps.iter().zip(&head.checksums) {
            let extent = Extent { offset: at + step.at, len: step.words as u64 * 8 };
            let bytes = self.read_steps(extent).await?;
            (secret.checksum(&bytes) == *checksum).then_some(())?;
            step.decode(&bytes, &mut label_filters);
        }
        Some(label_filters)
    }

    /// Reads the dump of an orderly stop. Returns `None` if it is incomplete.
    pub(crate) async fn read_dump(&self, secret: &Secret, areas: &Areas) -> Option<Vec<u8>> {
        let area = areas.index_dump;
        let header = self.read(Extent { offset: area.offset, len: BLOCK }).await?;
        let header = index_dump::Header::decode(secret, &header)?;
        let mut bytes = Vec::new();
        for (number, checksum) in header.checksums.iter().enumerate() {
            let step = header.step(number);
            let offset = area.offset + BLOCK + step.start;
            let step = self.read_steps(Extent { offset, len: step.len }).await?;
            if secret.checksum_at(number as u64, &step) != *checksum {
                return None;
            }
            bytes.extend_from_slice(&step);
        }
        Some(bytes)
    }

    async fn load_step(
        &self,
        secret: &Secret,
        areas: &Areas,
        index: &mut Index,
        header: &index_dump::Header,
        number: usize,
    ) -> bool {
        let step = header.step(number);
        let positions = areas.clusters.saturating_mul(areas.granules_per_cluster());
        let offset = areas.index_dump.offset + BLOCK + step.start;
        let Some(bytes) = self.read_steps(Extent { offset, len: step.len }).await else {
            return false;
        };
        secret.checksum_at(number as u64, &bytes) == header.checksums[number]
            && index.restore(header.first_bucket(number), &bytes, positions).is_ok()
    }
}

/// Reads the whole blocks around `extent` into a buffer obtained from `take`, and returns the
/// extent's part of it. The content of the buffer does not matter.
pub(crate) async fn read_aligned<D: Device>(
    device: &D,
    take: impl FnOnce(usize) -> IoBuf,
    extent: Extent,
) -> std::io::Result<Bytes> {
    let geometry = device.geometry();
    let mut aligned = extent.aligned(geometry.block);
    aligned.len = aligned.len.min(geometry.len.saturating_sub(aligned.offset));
    if aligned.len == 0 || aligned.end() < extent.end() {
        let end = format!("the device ends at byte {}", geometry.len);
        return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, end));
    }
    let (buf, result) = device.read(aligned.offset, take(aligned.len as usize)).await;
    result?;
    let skip = (extent.offset - aligned.offset) as usize;
    Ok(buf.into_bytes().slice(skip..skip + extent.len as usize))
}
