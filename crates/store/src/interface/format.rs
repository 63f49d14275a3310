//! Creation of a cache whose identity and secret are drawn from the system.

use device::Device;

use crate::config::options::FormatOptions;
use crate::shell::create::{Entropy, FormatError, format_with_seed};

/// Creates an empty cache on `device`, regardless of its content. A creation that was interrupted
/// can be repeated: the device begins with [`CREATION_MARK`] until everything else is durable.
/// `unix_seconds` is the time of creation.
///
/// # Errors
/// The device is too small, a write failed, or the system gives no random bytes.
///
/// [`CREATION_MARK`]: crate::CREATION_MARK
pub async fn format<D: Device>(
    device: &D,
    options: &FormatOptions,
    unix_seconds: u64,
) -> Result<(), FormatError> {
    let mut entropy: Entropy = [0; size_of::<Entropy>()];
    getrandom::fill(&mut entropy).map_err(|error| FormatError::NoEntropy(error.to_string()))?;
    format_with_seed(device, options, entropy, unix_seconds).await
}
