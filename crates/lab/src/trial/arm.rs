//! What is under trial: the layouts by name, and the options that chance varies with each.

use std::time::Duration;

use fastrand::Rng;
use store::{FormatOptions, Options, ReadUnit, WritePolicy};

/// A way to run the store that must keep all promises.
#[derive(Clone, Copy)]
pub struct Arm {
    /// Its name on command lines and in reports.
    pub name: &'static str,
    /// The options that make it what it is; chance varies the rest.
    pub options: fn() -> Options,
    /// What its cache is created with.
    pub format: fn() -> FormatOptions,
}

/// All arms, in the order in which they are tried.
pub const ARMS: &[Arm] = &[
    Arm { name: "cluster", options: Options::default, format: FormatOptions::default },
    Arm { name: "ucfs", options: Options::ucfs, format: FormatOptions::default },
];

/// The arm of this name.
pub fn arm(name: &str) -> Option<Arm> {
    ARMS.iter().find(|arm| arm.name == name).copied()
}

/// The arms' names, for messages.
pub fn names() -> String {
    let names: Vec<&str> = ARMS.iter().map(|arm| arm.name).collect();
    names.join(", ")
}

impl Arm {
    /// What a cache is created with, varied by chance.
    pub(super) fn format_by(&self, random: &mut Rng) -> FormatOptions {
        let cluster_size = [None, Some(32 << 10), Some(64 << 10)][random.usize(..3)];
        FormatOptions { cluster_size, ..(self.format)() }
    }

    /// Options of one life, varied by chance. What makes the arm stays.
    pub(super) fn options_by(&self, random: &mut Rng) -> Options {
        let mut options = (self.options)();
        options.memory = random.u64(1..5) << 20;
        if random.u8(..4) == 0 {
            options.read_unit = [ReadUnit::Object, ReadUnit::Cluster][random.usize(..2)];
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
        options
    }

    /// Whether what is acknowledged reaches the device within the durability bound.
    pub(super) fn bounded(options: &Options) -> bool {
        options.write_policy == WritePolicy::OnInsert
    }
}
