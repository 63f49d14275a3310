//! The store as the proxy uses it: over any device, in real time.

use device::AnyDevice;
use net::clock::TokioClock;

/// The store over any device, in real time.
pub type Store = store::Store<AnyDevice, TokioClock>;

/// A stored object.
pub(crate) type Entry = store::Entry<AnyDevice, TokioClock>;

/// The writer of a stored object.
pub(crate) type Writer = store::Writer<AnyDevice, TokioClock>;

/// The body of a stored object.
pub(crate) type Body = store::Body<AnyDevice, TokioClock>;

/// The result of a lookup.
pub(crate) type Lookup = store::Lookup<AnyDevice, TokioClock>;
