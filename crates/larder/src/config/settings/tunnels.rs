//! The declarations of what bounds tunnels.

use super::{MANY, Setting, YEARS, ms};
use crate::config::setting::Take;
use crate::config::value::Kind;

pub(super) const MOST: Setting = Setting::new(
    "client.tunnels",
    Kind::Int(0, MANY),
    &["4096"],
    |c, v| c.client.tunnels = Take::take(v),
    "Most tunnels at a time, of CONNECT and of connections that changed their protocol \
     (WebSocket); further requests for one are answered with 503. Each holds a connection to a \
     server, or a stream of one.",
)
.live();

pub(super) const IDLE: Setting = Setting::new(
    "client.tunnel-idle",
    Kind::Time(ms(100), YEARS),
    &["15m"],
    |c, v| c.client.tunnel_idle = Take::take(v),
    "How long a tunnel may be without a byte either way; then it is ended.",
)
.live();

pub(super) const TIME: Setting = Setting::new(
    "client.tunnel-time",
    Kind::Time(ms(100), YEARS),
    &["none"],
    |c, v| c.client.tunnel_time = Take::take(v),
    "How long a tunnel may be open, whatever moves in it; \"none\": as long as something does.",
)
.word("none")
.live();
