//! Configuration of the store: options, presets, layout names.

pub(crate) mod layout_name;
pub(crate) mod lookup_options;
pub(crate) mod options;
pub(crate) mod preset;
