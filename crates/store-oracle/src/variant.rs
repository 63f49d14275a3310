//! The variants under test: the layouts by name, and the options that are varied at random.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use sim::{Fault, FaultPlan};
use store::policy::PolicyName;
use store::{
    FormatOptions, LayoutName, LocalityOptions, Options, ReadUnit, TierShares, WritePolicy,
};

use super::content::TrialLabels;

/// A configuration of the store that must keep all guarantees.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Name on command lines and in reports.
    pub name: &'static str,
    /// Layout of its cache.
    pub layout: LayoutName,
    /// The options that define it; the others are varied at random.
    pub options: fn() -> Options,
}

/// Returns all variants in the order in which they are tried: every layout, and the preset `ucfs`,
/// which writes on eviction and uses virtual clusters.
pub fn variants() -> Vec<Variant> {
    let layouts = LayoutName::ALL.into_iter();
    let ucfs = Variant { name: "ucfs", layout: LayoutName::Cluster, options: Options::ucfs };
    layouts
        .map(|layout| Variant { name: layout.as_str(), layout, options: Options::default })
        .chain([ucfs])
        .collect()
}

/// Returns the variant of this name.
pub fn variant(name: &str) -> Option<Variant> {
    variants().into_iter().find(|variant| variant.name == name)
}

/// Returns the names of all variants, for messages.
pub fn names() -> String {
    let names: Vec<&str> = variants().iter().map(|variant| variant.name).collect();
    names.join(", ")
}

impl Variant {
    /// Returns the options that a cache is created with.
    pub(super) fn format(&self) -> FormatOptions {
        let index = (self.options)().index;
        FormatOptions { layout: self.layout, index, ..FormatOptions::default() }
    }

    /// Returns the options that a cache is created with, varied at random.
    pub(super) fn format_by(&self, random: &mut Rng) -> FormatOptions {
        let cluster_size = [None, Some(32 << 10), Some(64 << 10)][random.usize(..3)];
        FormatOptions { cluster_size, ..self.format() }
    }

    /// Returns the options of one session, varied at random; options that define the variant stay.
    pub(super) fn options_by(&self, random: &mut Rng) -> Options {
        let mut options = (self.options)();
        options.memory = random.u64(1..5) << 20;
        options.labels = Some(Arc::new(TrialLabels));
        if random.u8(..4) == 0 {
            let units = [ReadUnit::Object, ReadUnit::Cluster, ReadUnit::Auto];
            options.read_unit = units[random.usize(..3)];
        }
        if random.u8(..4) == 0 {
            options.read_batch = random.usize(1..8);
            options.read_batch_split = random.usize(..4);
        }
        // Draws from a copy of the generator, so that the other choices of a seed stay the same.
        if random.clone().u8(..4) == 0 {
            options.write_page = 512;
        }
        if random.u8(..8) == 0 {
            options.write_policy = WritePolicy::OnEvict;
        }
        if random.u8(..8) == 0 {
            options.purges = random.u32(1..12);
        }
        if random.u8(..4) == 0 {
            let hot = random.u8(..100);
            options.tier_shares = TierShares { hot, medium: random.u8(..=100 - hot) };
        }
        if random.u8(..4) == 0 {
            options.one_timer_age = Some(Duration::from_secs(random.u64(1..3_600)));
        }
        if random.u8(..4) == 0 {
            options.flush_interval = Duration::from_millis(random.u64(100..60_000));
        }
        if random.u8(..3) == 0 {
            options.recovery_wait = Duration::from_micros(random.u64(..20_000));
        }
        if self.layout != LayoutName::Cluster {
            // Draws from a copy, as above, with a seed of its own.
            vary_slots(&mut options, &mut Rng::with_seed(!random.clone().u64(..)));
        }
        options
    }

    /// Reduces a plan to the faults that this variant claims to survive. A misdirected write leaves
    /// the old bytes in place. In slots these may be a record that had died, and a checkpoint says
    /// only that some record is live there, not which.
    pub(super) fn survivable(&self, mut plan: FaultPlan) -> FaultPlan {
        if self.layout != LayoutName::Cluster {
            plan.faults.retain(|fault| !matches!(fault, Fault::Misdirected { .. }));
        }
        plan
    }

    /// Returns whether acknowledged writes reach the device within the durability bound.
    pub(super) fn bounded(options: &Options) -> bool {
        options.write_policy == WritePolicy::OnInsert
    }
}

/// Varies the options that matter in slots only: when and which objects are evicted, the size of
/// the packets, how late records are written, and which ones together.
fn vary_slots(options: &mut Options, random: &mut Rng) {
    if random.bool() {
        // Uses so little of the device that new objects evict others again and again.
        options.fill_percent = Some(random.u8(2..40));
    }
    if random.u8(..4) == 0 {
        options.policy = PolicyName::ALL[random.usize(..PolicyName::ALL.len())];
    }
    if random.u8(..3) == 0 {
        options.packet = [0, 4096, 8192, 64 << 10][random.usize(..4)];
    }
    if random.u8(..4) == 0 {
        options.durability_bound = Duration::from_millis(random.u64(1..20_000));
    }
    if random.u8(..6) == 0 {
        let buffers = random.u16(1..6);
        options.locality = Some(LocalityOptions { buffers, bytes: random.u32(4096..65_536) });
    }
}
