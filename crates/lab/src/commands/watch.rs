//! How far work is, on standard error, when it takes its time: a bar with the time left, or a count
//! where nobody knows how much there is.

use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::experiment::Meter;

/// Progress is shown of what takes longer than this.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often progress is looked at.
const EVERY: Duration = Duration::from_millis(200);

/// Does `work`, whose variants tell `Meter` how far they are; `name` stands before the bar.
pub fn watched<T: Send>(name: &str, work: impl FnOnce(&Meter) -> T + Send) -> T {
    let meter = Meter::default();
    thread::scope(|scope| {
        let (done, ends) = mpsc::channel();
        let meter = &meter;
        let runner = scope.spawn(move || {
            let result = work(meter);
            // Whoever watches waits until this thread has ended.
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
    // The template is constant; without it the bar looks plainer.
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

/// A count that grows, of work whose end nobody knows, such as the lines of a packed file.
pub struct Count {
    what: &'static str,
    begun: Instant,
    bar: Option<ProgressBar>,
}

impl Count {
    /// Begins; `what` is counted.
    pub fn new(what: &'static str) -> Count {
        Count { what, begun: Instant::now(), bar: None }
    }

    /// So many there are by now.
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

/// The same items; how many there were is shown on the way.
pub fn counted<T>(what: &'static str, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    /// Looking at the clock costs about as much as a request.
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
