//! A device whose filled clusters are computed until they are overwritten. Written data are stored
//! on an underlying device.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;

use ::device::{Device, FrozenBuf, Geometry, IoBuf};

use super::ComputedClusters;

/// Maximum size of one read from the underlying device outside filled clusters, in bytes.
const STEP: usize = 4096;

/// A device with computed clusters. See the module documentation.
pub struct ComputedDevice<D> {
    written: D,
    filled: Rc<ComputedClusters>,
    /// Offsets of the filled clusters that were overwritten.
    overwritten: RefCell<BTreeSet<u64>>,
}

impl<D: Device> ComputedDevice<D> {
    /// Returns a device with the clusters of `filled`. Superblocks and everything else outside
    /// clusters are on `written`.
    pub fn new(written: D, filled: ComputedClusters) -> ComputedDevice<D> {
        ComputedDevice { written, filled: Rc::new(filled), overwritten: RefCell::default() }
    }

    /// Returns the underlying device.
    pub fn written(&self) -> &D {
        &self.written
    }

    /// Returns the computed clusters.
    pub fn filled(&self) -> &Rc<ComputedClusters> {
        &self.filled
    }
}

impl<D: Device> Device for ComputedDevice<D> {
    fn geometry(&self) -> Geometry {
        self.written.geometry()
    }

    async fn read(&self, offset: u64, mut buf: IoBuf) -> (IoBuf, io::Result<()>) {
        // Proceeds from cluster to cluster, because a request may span several.
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let cluster = self.filled.cluster_at(at);
            let left = cluster.map_or(STEP, |(_, extent)| (extent.end() - at) as usize);
            let part = done..buf.len().min(done + left);
            done = part.end;
            match cluster {
                Some((number, extent)) if !self.overwritten.borrow().contains(&extent.offset) => {
                    self.filled.read(number, (at - extent.offset) as usize, &mut buf[part]);
                }
                _ => {
                    let (bytes, result) = self.written.read(at, IoBuf::zeroed(part.len())).await;
                    buf[part].copy_from_slice(&bytes);
                    if result.is_err() {
                        return (buf, result);
                    }
                }
            }
        }
        (buf, Ok(()))
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        let (mut at, end) = (offset, offset + buf.len() as u64);
        while let Some((_, extent)) = self.filled.cluster_at(at).filter(|_| at < end) {
            self.overwritten.borrow_mut().insert(extent.offset);
            at = extent.end();
        }
        self.written.write(offset, buf).await
    }

    async fn flush(&self) -> io::Result<()> {
        self.written.flush().await
    }
}
