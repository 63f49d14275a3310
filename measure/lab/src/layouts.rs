//! Drawings of the layouts: the same twenty objects with the same history, as the engine places
//! them on the device under every layout.
//!
//! [`example`] runs the engine on a device in memory and asks it where everything is; [`svg`] and
//! [`text`] draw the result. The drawings show only what the engine did.

pub mod example;
pub mod svg;
#[cfg(test)]
mod tests;
pub mod text;

fn letter(object: usize) -> char {
    char::from(b'A' + (object % 26) as u8)
}

/// Formats a length in KiB, with one decimal unless it is zero.
fn kib(bytes: u64) -> String {
    let tenths = (bytes * 10 + 512) / 1024;
    match tenths % 10 {
        0 => format!("{} KiB", tenths / 10),
        digit => format!("{}.{digit} KiB", tenths / 10),
    }
}
