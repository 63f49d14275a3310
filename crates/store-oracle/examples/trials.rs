//! Runs trials of the engine: one seed, many, or as many as fit a time.
//!
//! `cargo xtask sim` builds and calls it; see its help there.

#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use store_oracle::{Report, Variant, names, run, variant, variants};

/// The trials to run.
struct Order {
    variants: Vec<Variant>,
    first: u64,
    count: u64,
    time: Option<Duration>,
}

fn main() -> ExitCode {
    match order(std::env::args().skip(1)).and_then(|order| carry_out(&order)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("trials: {why}");
            ExitCode::FAILURE
        }
    }
}

fn order(mut words: impl Iterator<Item = String>) -> Result<Order, String> {
    let mut order = Order { variants: variants(), first: 0, count: 100, time: None };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--layout" => {
                let unknown = || format!("there is no layout {value}; there are {}", names());
                order.variants = vec![variant(&value).ok_or_else(unknown)?];
            }
            "--seed" => (order.first, order.count) = (number()?, 1),
            "--first" => order.first = number()?,
            "--seeds" => order.count = number()?,
            "--seconds" => order.time = Some(Duration::from_secs(number()?)),
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(order)
}

/// Runs every variant with each seed in turn and prints the findings.
fn carry_out(order: &Order) -> Result<(), String> {
    let begin = Instant::now();
    let (mut total, mut seeds, mut findings, mut said) = (Report::default(), 0_u64, 0_u64, begin);
    // Panics of the engine are findings: print one line, not a backtrace.
    std::panic::set_hook(Box::new(|_| {}));
    let more = |seeds: u64| match order.time {
        Some(time) => begin.elapsed() < time,
        None => seeds < order.count,
    };
    while more(seeds) {
        for variant in &order.variants {
            let seed = order.first + seeds;
            match run(*variant, seed) {
                Ok(report) => total.add(&report),
                Err(finding) => {
                    findings += 1;
                    println!("{}, seed {seed}: {finding}", variant.name);
                }
            }
        }
        seeds += 1;
        if said.elapsed() > Duration::from_secs(2) {
            said = Instant::now();
            println!("{}", line(order, seeds, findings, &total, begin));
        }
    }
    println!("{}", line(order, seeds, findings, &total, begin));
    if findings == 0 { Ok(()) } else { Err(format!("{findings} findings")) }
}

fn line(order: &Order, seeds: u64, findings: u64, total: &Report, begin: Instant) -> String {
    let layouts: Vec<&str> = order.variants.iter().map(|variant| variant.name).collect();
    format!(
        "{seeds} seeds ({}) in {:.0} s: {findings} findings; {} sessions, {} operations of \
         devices, {} of them failed, {} durable states found again; digest {:016x}",
        layouts.join(", "),
        begin.elapsed().as_secs_f64(),
        total.sessions,
        total.operations,
        total.errors,
        total.kept,
        total.history,
    )
}
