//! Declarations: fetches of objects for the cache.

use super::common::{K, MANY, Setting, TIMEOUT, hours, ms};
use crate::config::configuration::Config;
use crate::config::setting::fields;
use crate::config::value::Kind;

/// The table `[fill]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Bytes of a running fetch kept in memory for its readers.
    "fill.window", Kind::Size(64 * K, 1 << 30), ["512K"], live -> fill.window;

    /// Most bytes of one unstored response that pass through the device when its client is slower
    /// than the origin server and `fill.window` is full. Responses with no-store or private never
    /// do. 0: the server waits for the client.
    "fill.spill-max", Kind::Size(0, 1 << 50), ["64M"], live -> fill.spill_max;

    /// Share of the body from which a fetch continues after its last reader left.
    "fill.finish-percent", Kind::Int(0, 100), ["50"], live -> fill.finish_percent;

    /// It also continues when at most this much is missing.
    "fill.finish-rest", Kind::Size(0, 1 << 50), ["1M"], live -> fill.finish_rest;

    /// A range of an object being fetched waits if it begins at most this far ahead; otherwise it
    /// is fetched from the origin.
    "fill.follow-distance", Kind::Size(0, 1 << 40), ["1M"], live -> fill.follow_distance;

    /// Of an object stored in parts: the stretch that one part may cover.
    "fill.part-window", Kind::Size(64 * K, 64 << 20), ["1M"], live -> fill.part_window;

    /// Size from which missing parts of an object are fetched in whole windows.
    "fill.aligned-from", Kind::Size(0, 1 << 50), ["4M"], live -> fill.aligned_from;

    /// Time without a response head after which one waiting client repeats the request for all. A
    /// fetch this old that brings fewer than 16 KiB a second is not joined any more.
    "fill.wait", TIMEOUT, ["20s"], live -> fill.wait;

    /// Time during which clients fetch a key separately, without waiting, after its response could
    /// not be shared, unless a shareable one arrives.
    "fill.unshareable-for", Kind::Time(ms(0), hours(24)), ["30s"], live -> fill.unshareable_for;

    /// Most such keys remembered.
    "fill.unshareable-keys", Kind::Int(1, MANY), ["16384"], live -> fill.unshareable_keys;
};
