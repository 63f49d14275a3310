//! The activity of a block device, as the kernel counts it.

use std::path::Path;

use testkit::loop_device::Operations;

/// Operations completed since the device exists, and their bytes.
pub type DeviceCounts = Operations;

/// Reads the counts of a block device, a partition or a loop device, by its path in `/dev`.
///
/// # Errors
/// Fails if the path is not a block device, or the kernel shows none with this name.
pub fn device_counts(device: &Path) -> Result<DeviceCounts, String> {
    let fail = |error| format!("{}: {error}", device.display());
    let path = device.canonicalize().map_err(fail)?;
    let name = path.file_name().ok_or_else(|| format!("{}: no device", device.display()))?;
    let stat = Path::new("/sys/class/block").join(name).join("stat");
    let text = std::fs::read_to_string(&stat)
        .map_err(|error| format!("{}: {error} (is it a block device?)", stat.display()))?;
    Operations::read(&text).ok_or_else(|| format!("{}: no counts in {text:?}", stat.display()))
}

#[test]
fn what_is_no_device_is_an_error() {
    assert!(device_counts(Path::new("/dev/null")).is_err_and(|why| why.contains("null")));
    assert!(device_counts(Path::new("/dev/no-such-device")).is_err());
}
