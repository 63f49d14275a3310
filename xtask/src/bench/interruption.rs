//! Signals that would end this process: files and devices of a measurement are removed first.
//!
//! After [`watch`], a signal does not end the process by itself. Longer work calls [`check`], or
//! also waits for [`interrupted`], and fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use tokio::signal::unix::{Signal, SignalKind, signal};

static SEEN: AtomicBool = AtomicBool::new(false);

const TEXT: &str = "interrupted";

/// Watches for the signals from now on.
///
/// # Errors
///
/// When they cannot be watched.
pub fn watch() -> Result<(), String> {
    let (ready, wait) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.map_err(|error| format!("signals: {error}"));
        let watched = runtime.map(|runtime| {
            let signals = {
                let _entered = runtime.enter();
                Signals::new()
            };
            (runtime, signals)
        });
        let (runtime, mut signals) = match watched {
            Ok((runtime, Ok(signals))) => (runtime, signals),
            Ok((_, Err(why))) | Err(why) => return drop(ready.send(Err(why))),
        };
        drop(ready.send(Ok(())));
        loop {
            runtime.block_on(signals.next());
            SEEN.store(true, Ordering::Relaxed);
        }
    });
    wait.recv().map_err(|_| "signals cannot be watched".to_owned())?
}

/// Fails if such a signal has arrived.
///
/// # Errors
///
/// When one has arrived.
pub fn check() -> Result<(), String> {
    if SEEN.load(Ordering::Relaxed) { Err(TEXT.into()) } else { Ok(()) }
}

/// Waits for such a signal and returns the text of the error.
pub async fn interrupted() -> String {
    match Signals::new() {
        Ok(mut signals) => {
            signals.next().await;
            TEXT.into()
        }
        Err(why) => why,
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Signals, String> {
        let of = |kind| signal(kind).map_err(|error| format!("signals: {error}"));
        Ok(Signals {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
            hang_up: of(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => (),
            _ = self.terminate.recv() => (),
            _ = self.hang_up.recv() => (),
        }
    }
}
