//! The engine to measure: a preset, with another layout, packet or utilization.

use std::fmt;

use larder_store::{FormatOptions, LayoutName, Options, PRESETS};

/// Bytes of body, metadata and key of an object in the mean.
pub const MEAN_OBJECT: u32 = 12 << 10;

/// Written `PRESET[/LAYOUT][:PACKET][@PERCENT]`, or just `LAYOUT…` for the product's preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    preset: String,
    layout: Option<LayoutName>,
    /// Bytes of [`Options::packet`].
    packet: Option<u32>,
    /// [`Options::fill_percent`].
    fill: Option<u8>,
}

impl Arm {
    /// The arms of a list that commas divide.
    pub fn list(text: &str) -> Vec<Arm> {
        text.split(',').map(Arm::parse).collect()
    }

    fn parse(text: &str) -> Arm {
        let (rest, fill) = text.split_once('@').map_or((text, None), |(r, f)| (r, Some(f)));
        let (rest, packet) = rest.split_once(':').map_or((rest, None), |(r, p)| (r, Some(p)));
        let (preset, layout) = match rest.split_once('/') {
            Some((preset, layout)) => (preset, Some(layout)),
            None if PRESETS.contains(&rest) && !LayoutName::NAMES.contains(&rest) => (rest, None),
            None => ("larder", Some(rest)),
        };
        assert!(PRESETS.contains(&preset), "{text}: expected one of {PRESETS:?}");
        let layout = layout.map(|name| {
            let names = LayoutName::NAMES;
            LayoutName::from_name(name).unwrap_or_else(|| panic!("{text}: one of {names:?}"))
        });
        let packet = packet.map(|bytes| bytes.parse().expect("a packet in bytes"));
        let fill = fill.map(|percent| percent.parse().expect("a utilization in percent"));
        Arm { preset: preset.to_owned(), layout, packet, fill }
    }

    /// Parameters of a cache whose index has room for so many records.
    pub fn format(&self, records: usize) -> FormatOptions {
        let preset = larder_store::preset(&self.preset).expect("a preset that there is");
        let mut format = preset.format;
        format.layout = self.layout.unwrap_or(format.layout);
        format.mean_object = Some(MEAN_OBJECT);
        format.index.entries = Some(records as u64);
        format
    }

    /// Parameters of the open cache, `memory` bytes beside its tables.
    pub fn options(&self, records: usize, memory: u64) -> Options {
        let preset = larder_store::preset(&self.preset).expect("a preset that there is");
        let mut options = preset.options;
        options.packet = self.packet.unwrap_or(options.packet);
        options.fill_percent = self.fill.or(options.fill_percent);
        options.index.entries = Some(records as u64);
        options.memory = memory;
        options
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = self.preset.clone();
        if let Some(layout) = self.layout {
            name = if name == "larder" { layout.to_string() } else { format!("{name}/{layout}") };
        }
        if let Some(packet) = self.packet {
            name += &format!(":{packet}");
        }
        if let Some(fill) = self.fill {
            name += &format!("@{fill}");
        }
        f.pad(&name)
    }
}
