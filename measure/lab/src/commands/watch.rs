//! Progress on standard error for work that takes long: a bar with the time left, or a count if the
//! total is unknown.

use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::experiment::Meter;

/// Progress is shown for work that takes longer than this.
const PATIENCE: Duration = Duration::from_secs(2);

const EVERY: Duration = Duration::from_millis(200);

/// Runs `work`, whose variants report to `Meter` how far they are; `name` precedes the bar.
pub fn watched<T: Send>(name: &str, work: impl FnOnce(&Meter) -> T + Send) -> T {
    let meter = Meter::default();
    thread::scope(|scope| {
        let (done, ends) = mpsc::channel();
        let meter = &meter;
        let runner = scope.spawn(move || {
            let result = work(meter);
            // Does not fail: the receiver waits until this thread has ended.
            let _ = done.send(());
            result
        });
        let begun = Instant::now();
        let mut bar = None;
        while let Err(RecvTimeoutError::Timeout) = ends.recv_timeout(EVERY) {
            if begun.elapsed() < PATIENCE {
                continue;
            }
            let bar = bar.get_or_insert_with(|| bar_of(name));
            let fraction = meter.fraction();
            bar.set_position((fraction * 1_000.0) as u64);
            bar.set_message(message(begun.elapsed(), fraction, &meter.running()));
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        runner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn bar_of(name: &str) -> ProgressBar {
    let bar = ProgressBar::new(1_000);
    // The template is a constant; if it were invalid, the default style would be used.
    if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3}% {wide_msg}") {
        bar.set_style(style);
    }
    bar.set_prefix(name.to_owned());
    bar
}

fn message(elapsed: Duration, fraction: f64, running: &[String]) -> String {
    let left = match fraction > 0.01 {
        true => {
            let seconds = elapsed.as_secs_f64() * (1.0 / fraction - 1.0);
            format!("about {} left", super::list::about(seconds.round() as u32))
        }
        false => String::new(),
    };
    format!("{left} ({})", running.join(", "))
}

/// A growing count for work of unknown length, such as the lines of a compressed file.
pub struct Count {
    what: &'static str,
    begun: Instant,
    bar: Option<ProgressBar>,
}

impl Count {
    /// Starts the count; `what` names the things counted.
    pub fn new(what: &'static str) -> Count {
        Count { what, begun: Instant::now(), bar: None }
    }

    /// Shows `number` as the count so far.
    pub fn show(&mut self, number: u64) {
        let elapsed = self.begun.elapsed();
        if elapsed < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(ProgressBar::new_spinner);
        let rate = number as f64 / elapsed.as_secs_f64();
        let rate = HumanCount(rate as u64);
        bar.set_message(format!("{} {}, {rate} a second", HumanCount(number), self.what));
        bar.tick();
    }
}

/// Returns the same items and shows their number meanwhile.
pub fn counted<T>(what: &'static str, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    /// Reading the clock costs about as much as a request.
    const EVERY: u64 = 1 << 14;
    let mut count = Count::new(what);
    items.zip(1_u64..).map(move |(item, number)| {
        if number.is_multiple_of(EVERY) {
            count.show(number);
        }
        item
    })
}

impl Drop for Count {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
