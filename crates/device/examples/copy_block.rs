//! Writes a block to a new file through io_uring, or threads without it, and reads it back.

use larder_device::{CacheFile, Device, IoBuf, OpenOptions, Ring};
use tokio::task::{LocalSet, spawn_local};

async fn copy() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("copy-block-{}", std::process::id()));
    let options = OpenOptions { create: Some(1 << 20), ..OpenOptions::default() };
    let file = CacheFile::open(&path, &options)?;
    // One ring for each thread; `drive` serves it from the thread's event loop.
    let ring = Ring::new(64).ok();
    if let Some(ring) = &ring {
        spawn_local(larder_device::drive(ring.clone()));
    }
    let device = file.attach(ring.as_ref())?;

    let mut buf = IoBuf::zeroed(4096);
    buf[..5].copy_from_slice(b"Hello");
    device.write(8192, buf.freeze()).await?;
    device.flush().await?;
    let (buf, result) = device.read(8192, IoBuf::zeroed(4096)).await;
    result?;
    println!("{} by {}", String::from_utf8_lossy(&buf[..5]), device.kind());
    Ok(std::fs::remove_file(&path)?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    LocalSet::new().run_until(copy()).await
}
