//! The store as the proxy uses it: over any device, in real time.

use device::AnyDevice;
use net::clock::TokioClock;

/// The store over any device, in real time.
pub type Store = store::Store<AnyDevice, TokioClock>;

pub(crate) type Entry = store::Entry<AnyDevice, TokioClock>;

pub(crate) type Writer = store::Writer<AnyDevice, TokioClock>;

pub(crate) type Body = store::Body<AnyDevice, TokioClock>;

pub(crate) type Lookup = store::Lookup<AnyDevice, TokioClock>;
