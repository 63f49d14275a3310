//! Signals: the first SIGTERM or SIGINT begins an orderly shutdown, a second one ends the process
//! at once, SIGHUP reloads, SIGUSR2 lets a new process take over.
//!
//! A separate thread receives the signals, so that they are handled whatever the workers do.
//! SIGPIPE needs no handler: the Rust runtime ignores it.

use std::io;
use std::process;
use std::sync::Arc;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::Signals;

/// Makes a write beyond the limit on file sizes (`ulimit -f`) fail with an error instead of ending
/// the process with SIGXFSZ. The handler does nothing, because the failed write is reported.
pub fn outlive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(|_| ())
}

/// Starts listening for signals. `stop` is called once, at the first SIGTERM or SIGINT, with the
/// signal's name, on a separate thread; `reload` at each SIGHUP before that; `upgrade` at each
/// SIGUSR2, on a separate thread. A second SIGTERM or SIGINT ends the process with exit code 128 +
/// the signal's number.
pub fn listen(
    stop: impl FnOnce(&str) + Send + 'static,
    mut reload: impl FnMut() + Send + 'static,
    upgrade: impl Fn() + Send + Sync + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR2])?;
    let upgrade = Arc::new(upgrade);
    let mut stop = Some(stop);
    let run = move || {
        for signal in signals.forever() {
            match (signal, stop.take()) {
                (SIGHUP, Some(still)) => {
                    stop = Some(still);
                    reload();
                }
                (SIGUSR2, still) => {
                    stop = still;
                    let upgrade = upgrade.clone();
                    // The new process takes a while to start; other signals are handled in the
                    // meantime.
                    if let Err(error) = thread::Builder::new().spawn(move || upgrade()) {
                        log::error!("cannot upgrade: {error}");
                    }
                }
                (SIGHUP, None) => log::info!("SIGHUP ignored: stopping"),
                (_, Some(stop)) => {
                    let stopping = move || stop(name(signal));
                    if let Err(error) = thread::Builder::new().spawn(stopping) {
                        log::error!("cannot stop in order: {error}");
                        process::exit(128 + signal);
                    }
                }
                (_, None) => {
                    log::warn!("second {}: exiting at once", name(signal));
                    process::exit(128 + signal);
                }
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(run)?;
    Ok(())
}

fn name(signal: i32) -> &'static str {
    match signal {
        SIGTERM => "SIGTERM",
        SIGINT => "SIGINT",
        _ => "a signal",
    }
}
