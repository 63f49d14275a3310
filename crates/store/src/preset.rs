//! Presets: the system of each paper, and the product, as one named set of parameters.
//!
//! A preset is defaults, not a mode: the engine never asks which one it runs. Whoever wants a
//! variant of a paper's system takes its preset and changes a field.

use std::time::Duration;

use crate::index::{IndexKind, IndexOptions};
use crate::layout_name::LayoutName;
use crate::options::{FormatOptions, Options, ReadUnit, TierShares, WritePolicy};

/// A named set of parameters.
#[derive(Clone)]
pub struct Preset {
    /// As it is written everywhere.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub text: &'static str,
    /// Parameters of the open store.
    pub options: Options,
    /// Parameters of a new cache.
    pub format: FormatOptions,
}

/// The names of all presets, the product's own first.
pub const PRESETS: &[&str] = &["larder", "ucfs", "tfs"];

/// The preset of this name, one of [`PRESETS`].
pub fn preset(name: &str) -> Option<Preset> {
    let (name, text, options, format) = match name {
        "larder" => (
            "larder",
            "the product's own choice: objects are written soon after they arrived",
            Options::default(),
            FormatOptions::default(),
        ),
        "ucfs" => (
            "ucfs",
            "UCFS: grouped writes from the cold end of memory, whole-cluster reads",
            Options::ucfs(),
            FormatOptions { mean_object: 4 << 10, ..clusters_of_64_kb() },
        ),
        "tfs" => (
            "tfs",
            "TFS, an accelerator in front of a file system: as UCFS, with one LRU list whose last \
             tenth is grouped",
            Options::tfs(),
            clusters_of_64_kb(),
        ),
        _ => return None,
    };
    Some(Preset { name, text, options, format })
}

/// The file lookup table of the papers (2.3).
const EXACT: IndexOptions = IndexOptions { kind: IndexKind::Exact, entries: None };

fn clusters_of_64_kb() -> FormatOptions {
    FormatOptions {
        layout: LayoutName::Cluster,
        cluster_size: Some(64 << 10),
        index: EXACT,
        ..FormatOptions::default()
    }
}

impl Options {
    /// UCFS as its paper has it: whole-cluster reads (section 2.4.3), writes from the cold end of
    /// memory in groups (2.6), a memory of three levels (2.5), one-timers dropped after 115 hours
    /// (2.4.9), nothing above 256 KB (2.2). A kill loses what is in memory only.
    pub fn ucfs() -> Options {
        Options {
            write_policy: WritePolicy::OnEvict,
            read_unit: ReadUnit::Cluster,
            object_max: Some(256 << 10),
            one_timer_age: Some(Duration::from_secs(115 * 3600)),
            young_percent: 0,
            index: EXACT,
            tier_shares: TierShares { hot: 30, medium: 40 },
            group_share: 50,
            group_batch: 4,
            group_small: 1024,
            group_slack: 1024,
            ..Options::default()
        }
    }

    /// TFS as its paper has it (section 2): the storage of UCFS below one LRU list, whose last
    /// tenth is the group buffer. It has no age for one-timers and no largest object.
    pub fn tfs() -> Options {
        Options {
            object_max: None,
            one_timer_age: None,
            tier_shares: TierShares { hot: 0, medium: 90 },
            group_share: 100,
            ..Options::ucfs()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_preset() {
        for name in PRESETS {
            assert_eq!(preset(name).expect("listed").name, *name);
        }
        assert!(preset("default").is_none() && preset("UCFS").is_none());
    }

    #[test]
    fn shares_of_every_preset_are_percents() {
        for name in PRESETS {
            let options = preset(name).expect("listed").options;
            assert!(options.tier_shares.hot + options.tier_shares.medium <= 100, "{name}");
            assert!(options.group_share <= 100 && options.young_percent <= 100, "{name}");
        }
    }
}
