//! The curves as plots and as a table.

use std::fmt::Write as _;

use store::LayoutName;

use super::{Curves, Goal, Part, PolicyOutcome, Sizes};
use crate::advise::log_replay::{Row, System};
use crate::experiment::{Axis, Plot};

const GIB: f64 = (1_u64 << 30) as f64;

/// Plots hits by disk size, hits by memory size, and hits by policy.
pub fn plots(
    curves: &Curves,
    sizes: &Sizes,
    policies: &[PolicyOutcome],
    rows: &[Row],
    goal: Goal,
) -> Vec<Plot> {
    vec![disk(curves, sizes, rows), memory(curves, sizes, goal), bars(policies)]
}

fn hits() -> Axis {
    Axis::linear("hits, % of requests or bytes").range(0.0, 100.0)
}

fn disk(curves: &Curves, sizes: &Sizes, rows: &[Row]) -> Plot {
    let of = |part, goal: Goal| {
        let point = move |size: &u64| (*size as f64 / GIB, 100.0 * goal.of(curves.at(*size, part)));
        sizes.disks.iter().map(point)
    };
    let measured = rows.iter().filter_map(|row| {
        let plain = row.setup.admission.is_none() && row.setup.policy.is_none();
        let default = row.setup.system == System::Layout(LayoutName::Cluster) && plain;
        let figures = row.result.as_ref().ok().filter(|_| default)?;
        Some((row.setup.disk as f64 / GIB, 100.0 * figures.hit_ratio))
    });
    let at = sizes.disk as f64 / GIB;
    Plot::lines("disk", "Hits by disk size", Axis::log("disk, GiB"), hits())
        .ours("requests, second half", of(Part::Second, Goal::Requests))
        .ours("bytes, second half", of(Part::Second, Goal::Bytes))
        .ours("requests, whole log from empty", of(Part::Whole, Goal::Requests))
        .ours("requests, the engine itself", measured)
        .ours("advised", [(at, 0.0), (at, 100.0)])
        .note("LRU curves; the engine with its default layout.")
}

fn memory(curves: &Curves, sizes: &Sizes, goal: Goal) -> Plot {
    let of = |goal: Goal| {
        let point = move |size: &u64| {
            let hits = sizes.memory_hits(curves, *size, Part::Second);
            (*size as f64 / GIB, 100.0 * goal.of(hits))
        };
        sizes.memories.iter().map(point)
    };
    let at = sizes.memory as f64 / GIB;
    let all = 100.0 * goal.of(curves.at(sizes.disk, Part::Second));
    let ends = [sizes.memories.first(), sizes.memories.last()].into_iter().flatten();
    Plot::lines("memory", "Hits of memory alone", Axis::log("memory, GiB"), hits())
        .ours("requests", of(Goal::Requests))
        .ours("bytes", of(Goal::Bytes))
        .ours("with the disk", ends.map(|size| (*size as f64 / GIB, all)))
        .ours("advised", [(at, 0.0), (at, 100.0)])
        .note("Second half of the log; memory includes index and buffers.")
}

fn bars(policies: &[PolicyOutcome]) -> Plot {
    let names = policies.iter().map(|outcome| outcome.policy.as_str());
    let of = |goal: Goal| policies.iter().map(move |outcome| 100.0 * goal.of(outcome.hits));
    Plot::bars("policies", "Policies alone, in a cache of the disk's size", names, hits())
        .ours_bars("requests", of(Goal::Requests))
        .ours_bars("bytes", of(Goal::Bytes))
        .note("Second half of the log.")
}

/// Returns the curves as CSV: sizes in bytes, ratios from 0 to 1. Memory is the server's whole
/// memory setting.
pub fn table(curves: &Curves, sizes: &Sizes) -> String {
    let mut text = String::from(
        "what,bytes,for_objects,hit_ratio,byte_hit_ratio,whole_log_hit_ratio,\
         whole_log_byte_hit_ratio,turnovers\n",
    );
    let mut line = |what: &str, bytes: u64, room: u64, turnovers: String| {
        let [second, whole] = [Part::Second, Part::Whole].map(|part| curves.at(room, part));
        let _ = writeln!(
            text,
            "{what},{bytes},{room},{:.6},{:.6},{:.6},{:.6},{turnovers}",
            second.requests, second.bytes, whole.requests, whole.bytes
        );
    };
    for disk in &sizes.disks {
        line("disk", *disk, *disk, format!("{:.2}", curves.turnovers(*disk)));
    }
    for memory in &sizes.memories {
        line("memory", *memory, sizes.objects_in(*memory), String::new());
    }
    text
}
