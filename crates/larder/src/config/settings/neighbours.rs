//! Settings of validating neighbours (docs/http.md, systems C14).

use super::{MANY, Setting};
use crate::config::setting::Take;
use crate::config::value::Kind;

pub(super) const MOST: Setting = Setting::new(
    "caching.validate-neighbours",
    Kind::Int(0, 64),
    &["0"],
    |c, v| c.caching.validate_neighbours = Take::take(v),
    "When a stale answer is validated: how many stale ones beside it in the cache, of the same \
     site and directory or written with it, are validated behind it on connections that are open, \
     so that whoever asks for them next need not wait. Each is a request that the origin server \
     might not have got. 0: none.",
)
.live();

pub(super) const RATE: Setting = Setting::new(
    "caching.neighbour-rate",
    Kind::Int(1, MANY),
    &["20"],
    |c, v| c.caching.neighbour_rate = Take::take(v),
    "The most such validations a second of one site; after a pause as many at once.",
)
.live();
