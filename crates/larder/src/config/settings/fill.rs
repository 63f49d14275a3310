//! Declarations: fetches of objects for the cache.

use super::common::{K, MANY, Setting, TIMEOUT, hours, ms};
use crate::config::configuration::Config;
use crate::config::setting::fields;
use crate::config::value::Kind;

/// The table `[fill]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Bytes of a running fetch that are kept in memory for its readers.
    "fill.window", Kind::Size(64 * K, 1 << 30), ["512K"], live -> fill.window;

    /// Bytes of an answer that is not stored which may go through the cache's device because its
    /// client takes them slower than the origin server sends them, and `fill.window` is full. No
    /// request finds them, and they are gone when they have been sent. Answers with no-store or
    /// private wait in memory instead. 0: nothing that is not to be stored is written to the
    /// device, and the server waits for the client.
    "fill.spill-max", Kind::Size(0, 1 << 50), ["64M"], live -> fill.spill_max;

    /// A fetch whose last reader left goes on when at least this share of the body is there.
    "fill.finish-percent", Kind::Int(0, 100), ["50"], live -> fill.finish_percent;

    /// It also goes on when at most this much is missing.
    "fill.finish-rest", Kind::Size(0, 1 << 50), ["1M"], live -> fill.finish_rest;

    /// A range of what is being fetched is waited for when it begins at most this far ahead of what
    /// is there; one further away is asked of the origin.
    "fill.follow-distance", Kind::Size(0, 1 << 40), ["1M"], live -> fill.follow_distance;

    /// Of an object that is stored in parts: the stretch of it that one part may cover.
    "fill.part-window", Kind::Size(64 * K, 64 << 20), ["1M"], live -> fill.part_window;

    /// What is missing of an object in parts is fetched by whole windows when it is at least this
    /// large.
    "fill.aligned-from", Kind::Size(0, 1 << 50), ["4M"], live -> fill.aligned_from;

    /// When clients wait for one fetch and there has been no head for so long, one of them asks the
    /// origin once more, for all of them. They go on waiting, and take what comes first. A fetch
    /// that has run for so long and brings fewer than 16 KiB a second is not joined any more.
    "fill.wait", TIMEOUT, ["20s"], live -> fill.wait;

    /// How long a key whose answer could not be shared is fetched by every client on its own,
    /// without waiting for each other, unless one comes meanwhile that can.
    "fill.unshareable-for", Kind::Time(ms(0), hours(24)), ["30s"], live -> fill.unshareable_for;

    /// How many such keys are remembered.
    "fill.unshareable-keys", Kind::Int(1, MANY), ["16384"], live -> fill.unshareable_keys;
};
