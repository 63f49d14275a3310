//! The tier that served a hit.

/// The tier that served a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The memory tier or a buffer on its way to the device: no read was needed.
    Ram,
    /// The device.
    Disk,
}
