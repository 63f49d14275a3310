//! Seeds for tests with randomness: printed, and replayed with `LARDER_SEED`.

/// Returns `count` random seeds, or the one in the environment variable `LARDER_SEED`. Prints each
/// seed when it is used, so that the output of a failed test names it.
pub fn seeds(test: &'static str, count: usize) -> impl Iterator<Item = u64> {
    let fixed = std::env::var("LARDER_SEED").ok();
    let fixed = fixed.map(|seed| seed.parse::<u64>().expect("LARDER_SEED is a number"));
    let count = if fixed.is_some() { 1 } else { count };
    std::iter::repeat_with(move || fixed.unwrap_or_else(|| fastrand::u64(..)))
        .take(count)
        .inspect(move |seed| eprintln!("{test}: LARDER_SEED={seed}"))
}
