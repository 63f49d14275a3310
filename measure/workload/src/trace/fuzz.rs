//! Text readers against arbitrary and mutated lines: they never panic, and unmodified lines read
//! the same as before.
//!
//! Runs for one second, or for `LARDER_FUZZ_SECONDS`; `LARDER_SEED` sets the seed, which is
//! printed.

use std::time::{Duration, Instant};

use super::csv::Columns;
use super::event::Event;
use super::{Filter, Format, Trace, clf, json, squid};

const LINES: [&str; 5] = [
    "982800000.123    105 10.0.0.1 TCP_MISS/200 432 GET http://h/a/b.html - DIRECT/- text/html",
    "host.example - - [01/Jul/1995:00:00:12 -0400] \"GET /a/b.gif?x HTTP/1.0\" 200 398 \"r\" \"a\"",
    "7.5,c,http://h/x/y.html,\"quoted, text\",9,304",
    "h\t-\t804571201\tGET\t/a/\t200\t6245\t\t",
    r#"{"ts":7.5,"request":{"method":"GET","uri":"/a","host":"h"},"status":200,"size":4}"#,
];

const COLUMNS: [&str; 2] =
    ["time,client,url,x,size,status", "host\tlogname\ttime\tmethod\turl\tresponse\tbytes"];

/// Returns the results of all readers on a line.
fn read(line: &[u8]) -> Vec<Result<Event, String>> {
    let tables = COLUMNS.map(|names| names.parse::<Columns>().unwrap().parse(line, Filter::Served));
    let parsers = [squid::parse, clf::parse, json::parse];
    parsers.into_iter().map(|parse| parse(line, Filter::Served)).chain(tables).collect()
}

fn mutate(line: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(0..=line.len());
        match random.u32(0..5) {
            0 => line.truncate(at),
            1 => line.insert(at, random.u8(..)),
            2 if at < line.len() => line[at] = *random.choice(b" \"[]/:.,\t-9\0\xff").unwrap_or(&0),
            3 if at < line.len() => drop(line.remove(at)),
            _ => {
                let part = line[at..].to_vec();
                line.extend(part);
            }
        }
    }
}

#[test]
#[allow(clippy::print_stdout)]
fn mutated_lines_never_end_a_reader() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("LARDER_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("LARDER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let whole: Vec<_> = LINES.map(|line| read(line.as_bytes())).into();
    let places = [(0, 0), (1, 1), (2, 3), (3, 4), (4, 2)]
        .map(|(line, reader): (usize, usize)| whole[line][reader].clone());
    assert!(places.iter().all(Result::is_ok), "{places:?}");
    let end = Instant::now() + Duration::from_secs(number("LARDER_FUZZ_SECONDS").unwrap_or(1));
    while Instant::now() < end {
        let mut text = Vec::new();
        for _ in 0..random.usize(1..40) {
            let mut line = random.choice(LINES).unwrap_or_default().as_bytes().to_vec();
            if random.u8(0..4) > 0 {
                mutate(&mut line, &mut random);
            }
            read(&line);
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        // A file of unspecified format, which may not be recognised.
        let Ok(mut trace) = Trace::read(std::io::Cursor::new(text), Format::Auto, None) else {
            continue;
        };
        let lines = std::iter::from_fn(|| trace.next_event().unwrap());
        assert!(lines.count() < 1_000);
    }
}
