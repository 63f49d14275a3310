//! Runs one asynchronous job on a cache outside the workers: formatting or inspecting.

use std::future::Future;
use std::io;
use std::sync::Arc;

use device::{AnyDevice, CacheFile, Ring};
use tokio::runtime;
use tokio::task::{LocalSet, spawn_local};

const PLACES: u32 = 64;

/// Runs `job` to completion on a device of `file`, with io_uring if it is available.
pub fn on_device<F, T>(file: &Arc<CacheFile>, job: impl FnOnce(AnyDevice) -> F) -> io::Result<T>
where
    F: Future<Output = T>,
{
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let ring = match Ring::new(PLACES) {
            Ok(ring) => {
                spawn_local(device::drive(ring.clone()));
                Some(ring)
            }
            Err(fallback) => {
                file.note(fallback);
                None
            }
        };
        Ok(job(file.attach(ring.as_ref())?).await)
    })
}
