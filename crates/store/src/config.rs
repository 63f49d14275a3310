//! Configuration of the store: options, presets, names of layouts.

pub(crate) mod layout_name;
pub(crate) mod lookup_options;
pub(crate) mod options;
pub(crate) mod preset;
