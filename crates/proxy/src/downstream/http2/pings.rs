//! Detects dead clients: a silent client is sent a PING (RFC 9113, 6.7) and must answer in time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use h2::{Ping, PingPong};
use net::clock::TokioClock;
use tokio::time::{Sleep, sleep};

use crate::client::http2_options::Http2Options;

pub(super) struct Keepalive {
    sender: PingPong,
    clock: TokioClock,
    interval: Duration,
    patience: Duration,
    /// Byte count at the last check that saw new bytes or a pong, and the time of that check.
    heard: (u64, Instant),
    asked: bool,
    asked_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Keepalive {
    pub fn new(sender: PingPong, options: &Http2Options, clock: TokioClock) -> Keepalive {
        Keepalive {
            sender,
            clock,
            interval: options.ping_interval,
            patience: options.ping_timeout,
            heard: (0, clock.instant()),
            asked: false,
            asked_at: clock.instant(),
            timer: Box::pin(sleep(options.ping_interval)),
        }
    }

    /// Completes when the client has been silent for too long. `received` is the number of bytes
    /// received so far.
    pub fn poll_silence(&mut self, received: u64, cx: &mut Context<'_>) -> Poll<()> {
        if self.heard.0 != received {
            self.heard = (received, self.clock.instant());
        }
        if self.asked && self.sender.poll_pong(cx).is_ready() {
            self.asked = false;
            self.heard.1 = self.clock.instant();
            self.timer.as_mut().reset((self.heard.1 + self.interval).into());
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            // Any byte proves that the client is alive; its pong may be queued after other data.
            let wait = if self.asked { self.patience } else { self.interval };
            let due = self.heard.1 + wait;
            if due > self.clock.instant() && (!self.asked || self.heard.1 > self.asked_at) {
                self.timer.as_mut().reset(due.into());
                continue;
            }
            if self.asked {
                return Poll::Ready(());
            }
            // Fails when the connection ends, which the connection itself reports.
            self.asked = self.sender.send_ping(Ping::opaque()).is_ok();
            self.asked_at = self.clock.instant();
            let wait = if self.asked { self.patience } else { self.interval };
            self.timer.as_mut().reset((self.asked_at + wait).into());
            if self.asked && self.sender.poll_pong(cx).is_ready() {
                self.asked = false;
            }
        }
        Poll::Pending
    }
}
