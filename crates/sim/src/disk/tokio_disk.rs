//! A simulated disk in the time of a tokio runtime: its executor follows the runtime's clock.

use std::io;

use device::{Device, FrozenBuf, Geometry, IoBuf};
use tokio::time::Instant;

use crate::disk::sim_disk::SimDisk;
use crate::time::executor::Handle;

/// A [`SimDisk`] as a device for code on a tokio runtime. A clone is another handle on the same
/// disk.
#[derive(Clone)]
pub struct TokioDisk {
    disk: SimDisk,
    handle: Handle,
    began: Instant,
}

impl TokioDisk {
    /// Wraps `disk`, whose executor belongs to `handle` and has followed the runtime's clock since
    /// `began` ([`crate::Executor::follow`]).
    pub fn new(disk: SimDisk, handle: Handle, began: Instant) -> TokioDisk {
        TokioDisk { disk, handle, began }
    }

    /// Returns the simulated disk.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }
}

impl Device for TokioDisk {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        self.handle.catch_up(self.began);
        self.disk.read(offset, buf).await
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        self.handle.catch_up(self.began);
        self.disk.write(offset, buf).await
    }

    async fn flush(&self) -> io::Result<()> {
        self.handle.catch_up(self.began);
        self.disk.flush().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::{LocalSet, spawn_local};

    use super::*;
    use crate::disk::sim_disk::Options;
    use crate::drives::constant_latency::Uniform;
    use crate::time::executor::Executor;

    #[tokio::test(start_paused = true)]
    async fn a_disk_takes_its_time_on_the_clock_of_a_runtime() {
        LocalSet::new()
            .run_until(async {
                let (executor, began) = (Executor::new(Some(7), 0), Instant::now());
                let handle = executor.handle();
                let disk = SimDisk::new(handle.clone(), Box::new(drive()), Options::default());
                let disk = TokioDisk::new(disk, handle, began);
                spawn_local(executor.follow(began));
                let data = IoBuf::zeroed(4096).freeze();
                tokio::time::sleep(Duration::from_secs(3)).await;
                let before = Instant::now();
                disk.write(0, data).await.unwrap();
                let (buf, result) = disk.read(0, IoBuf::zeroed(4096)).await;
                result.unwrap();
                assert_eq!(buf.len(), 4096);
                // Two operations of 5 ms each.
                assert_eq!(before.elapsed().as_millis(), 10);
            })
            .await;
    }

    /// Returns a drive on which every operation takes 5 ms.
    fn drive() -> Uniform {
        let request = 5_000_000;
        Uniform { request, sector: 0, flush: request, ..Uniform::fast(1 << 20) }
    }
}
