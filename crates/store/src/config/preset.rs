//! Presets: the system of each paper, and Larder itself, as one named set of parameters each.
//!
//! A preset is a set of defaults, not a mode: the engine never asks which one it runs. For a
//! variant of a paper's system, take its preset and change a field.

use std::time::Duration;

use crate::config::layout_name::LayoutName;
use crate::config::options::{
    FormatOptions, LocalityOptions, MEAN_OBJECT, Options, ReadUnit, TierAdmission, TierShares,
    WritePolicy,
};
use crate::index::{IndexKind, IndexOptions};
use crate::policy::PolicyName;

/// A named set of parameters.
#[derive(Clone)]
pub struct Preset {
    /// The name, as one of [`PRESETS`].
    pub name: &'static str,
    /// A description in one sentence.
    pub text: &'static str,
    /// Parameters of the open store.
    pub options: Options,
    /// Parameters of a new cache.
    pub format: FormatOptions,
}

/// The names of all presets, Larder's own first.
pub const PRESETS: &[&str] = &[
    "larder",
    "ucfs",
    "tfs",
    "unified",
    "markatos-buddy",
    "markatos-stream",
    "markatos-stream-pack",
    "markatos-lazy-reads",
    "markatos-lazy-reads-loc",
];

/// Returns the preset of this name, one of [`PRESETS`].
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
            FormatOptions { mean_object: Some(4 << 10), ..clusters_of_64_kb() },
        ),
        "tfs" => (
            "tfs",
            "TFS, an accelerator in front of a file system: as UCFS, with one LRU list whose last \
             tenth is grouped",
            Options::tfs(),
            clusters_of_64_kb(),
        ),
        "unified" => (
            "unified",
            "UNIFIED: one read per hit, one write per object, into the largest free piece",
            Options::unified(),
            slots_of_512_bytes(LayoutName::Unified),
        ),
        "markatos-buddy" => (
            "markatos-buddy",
            "BUDDY of Markatos and others: each object in the first free place of its size class",
            Options::markatos_buddy(),
            slots_of_512_bytes(LayoutName::Buddy),
        ),
        "markatos-stream" => (
            "markatos-stream",
            "STREAM of Markatos and others: writes go round the device over what is free",
            Options::markatos_stream(),
            slots_of_512_bytes(LayoutName::Stream),
        ),
        "markatos-stream-pack" => (
            "markatos-stream-pack",
            "STREAM-PACKETIZER: as STREAM, with neighbouring writes collected up to a page of \
             8 KiB",
            Options::markatos_stream_pack(),
            slots_of_512_bytes(LayoutName::Stream),
        ),
        "markatos-lazy-reads" => (
            "markatos-lazy-reads",
            "LAZY-READS: as STREAM-PACKETIZER, with reads collected ten at a time and sorted by \
             position",
            Options::markatos_lazy_reads(),
            slots_of_512_bytes(LayoutName::Stream),
        ),
        "markatos-lazy-reads-loc" => (
            "markatos-lazy-reads-loc",
            "LAZY-READS-LOC: as LAZY-READS, with 128 buffers that each collect what comes from one \
             origin server",
            Options::markatos_lazy_reads_loc(),
            slots_of_512_bytes(LayoutName::Stream),
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
        mean_object: Some(MEAN_OBJECT),
        ..FormatOptions::default()
    }
}

/// Slots of the size of BUDDY's and STREAM's blocks (Markatos and others, "File Management", with
/// the threshold of figure 5); the UNIFIED paper states no chunk size (4.1).
fn slots_of_512_bytes(layout: LayoutName) -> FormatOptions {
    FormatOptions {
        layout,
        slot_size: 512,
        buddy_threshold: 128 << 10,
        mean_object: Some(MEAN_OBJECT),
        ..FormatOptions::default()
    }
}

/// No bound on how long an object may stay unwritten: so long that it never expires.
const UNBOUNDED: Duration = Duration::from_secs(365 * 24 * 3600);

impl Options {
    /// Returns the options of UCFS as in its paper: whole-cluster reads (section 2.4.3), writes
    /// from the cold end of memory in groups (2.6), a memory of three levels (2.5), clusters of
    /// one-timers dropped after 115 hours (2.4.9), nothing above 256 KB (2.2). A kill loses objects
    /// that are in memory only.
    pub fn ucfs() -> Options {
        Options {
            write_policy: WritePolicy::OnEvict,
            read_unit: ReadUnit::Cluster,
            object_max: Some(256 << 10),
            one_timer_age: Some(Duration::from_secs(115 * 3600)),
            reference_half_life: 0,
            young_percent: 0,
            index: EXACT,
            tier_shares: TierShares { hot: 30, medium: 40 },
            tier_admission: TierAdmission::All,
            group_share: 50,
            group_batch: 4,
            group_small: 1024,
            group_slack: 1024,
            batch: 0,
            ..Options::default()
        }
    }

    /// Returns the options of TFS as in its paper (section 2): the storage of UCFS below one LRU
    /// list, whose last tenth is the group buffer. It has no maximum age of one-timers and no
    /// maximum object size.
    pub fn tfs() -> Options {
        Options {
            object_max: None,
            one_timer_age: None,
            tier_shares: TierShares { hot: 0, medium: 90 },
            group_share: 100,
            ..Options::ucfs()
        }
    }

    /// Returns the options that the papers on slots share: each object is written on arrival, in a
    /// write of its own, and read alone; LRU chooses the records to evict. There is no bound on how
    /// long collected writes may stay unwritten.
    fn slots() -> Options {
        Options {
            write_policy: WritePolicy::OnInsert,
            read_unit: ReadUnit::Object,
            tier_admission: TierAdmission::All,
            policy: PolicyName::Lru,
            packet: 0,
            durability_bound: UNBOUNDED,
            batch: 0,
            ..Options::default()
        }
    }

    /// Returns the options of UNIFIED as in its paper: one read, one write (section 4.2), Squid's
    /// LRU (5). The paper does not say how full its file was; 90% leaves worst fit (4.3) pieces to
    /// choose from.
    pub fn unified() -> Options {
        Options { fill_percent: Some(90), ..Options::slots() }
    }

    /// Returns the options of BUDDY as in its paper (Markatos and others, "File Management"), with
    /// LRU as in its evaluation ("Methodology"). It works at any utilization (figure 6), so empty
    /// regions of other classes count as its own loss.
    pub fn markatos_buddy() -> Options {
        Options { fill_percent: Some(90), ..Options::slots() }
    }

    /// Returns the options of STREAM as in its paper ("Optimizing Write throughput"), at the
    /// utilization of 70% from which it is ahead (figure 6).
    pub fn markatos_stream() -> Options {
        Options { fill_percent: Some(70), ..Options::slots() }
    }

    /// Returns the options of STREAM-PACKETIZER: a buffer of one page collects writes as long as
    /// they are contiguous. A page was 8 KiB on the paper's machine, an UltraSPARC.
    pub fn markatos_stream_pack() -> Options {
        Options { packet: 8 << 10, ..Options::markatos_stream() }
    }

    /// Returns the options of LAZY-READS ("Improving Read Requests"): reads go out ten at a time,
    /// sorted (figure 7). The paper has a timeout for an unloaded system but does not state its
    /// length.
    pub fn markatos_lazy_reads() -> Options {
        Options {
            read_batch: 10,
            read_batch_timeout: Duration::from_millis(20),
            ..Options::markatos_stream_pack()
        }
    }

    /// Returns the options of LAZY-READS-LOC ("Preserving the Locality of the URL stream"): 128
    /// buffers are the most that the paper tries (figure 8, table 1); it does not state their size.
    pub fn markatos_lazy_reads_loc() -> Options {
        let locality = Some(LocalityOptions { buffers: 128, bytes: 64 << 10 });
        Options { locality, ..Options::markatos_lazy_reads() }
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
