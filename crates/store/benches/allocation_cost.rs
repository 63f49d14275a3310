//! What placing and releasing cost as free pieces grow: UNIFIED's O(log n), and the other
//! allocators beside it. No device and no engine, only the allocators.
//!
//! `cargo bench -p larder-store --bench allocation_cost [-- MAX_PIECES [DIRECTORY]]`
//!
//! A space is filled with objects of 1 to 48 slots, then a fifth of them, chosen at random, is
//! released, as in a cache that is 80% full. Then objects are released at random and others of the
//! same sizes placed, a batch at a time: first as often as there are objects, so that the free
//! pieces are those of a cache in use, then with each half of the batch timed. The median of the
//! batches counts, because the machine may have other work. With DIRECTORY the figures go to
//! `allocation-cost.csv` and the plot to `allocation-cost.svg` in it.
//!
//! A second table says how full each keeps a space of 512 MiB when objects are evicted only to make
//! room, the oldest first or at random.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use larder_store::layouts::{AnyLayout, Layout, LayoutKind, Run, Space, region_for};
use plotters::prelude::*;

const SLOT: u32 = 512;
/// Slots of the largest object.
const LARGEST: u32 = 48;
/// The largest class of BUDDY.
const THRESHOLD: u32 = 256;
const SEED: u64 = 3;
/// Pairs of a release and a place that are timed.
const PAIRS: usize = 1_000_000;

/// An object; in little memory, because there are tens of millions.
struct Object {
    slots: u32,
    first: Run,
    others: Box<[Run]>,
}

impl Object {
    fn new(slots: u32, runs: &[Run]) -> Object {
        let (first, others) = runs.split_first().expect("an object has a run");
        Object { slots, first: *first, others: others.into() }
    }

    fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// A space with objects in it.
struct Filled {
    layout: AnyLayout,
    objects: Vec<Object>,
    random: fastrand::Rng,
    refused: usize,
}

/// What one measurement found.
struct Figure {
    layout: &'static str,
    /// Pieces of UNIFIED for which the space was made.
    meant: u32,
    pieces: usize,
    objects: usize,
    place: f64,
    release: f64,
    occupy: f64,
    /// Bytes of memory per free piece beside the bit vector.
    bytes: f64,
    runs: f64,
    /// Entries that UNIFIED's heap moves for a place and a release together.
    moves: f64,
    refused: usize,
}

fn kinds(slots: u32) -> [(&'static str, LayoutKind); 3] {
    let region = region_for(slots, THRESHOLD);
    [
        ("unified", LayoutKind::Unified),
        ("stream 16", LayoutKind::Stream { runs_max: 16 }),
        ("buddy", LayoutKind::Buddy { threshold: THRESHOLD, region }),
    ]
}

/// The space in which about `pieces` free pieces stand.
fn space(pieces: u32) -> Space {
    // Found by trying: 67 slots to a piece of UNIFIED.
    let slots = u64::from(pieces) * 67;
    Space { slots: u32::try_from(slots).unwrap().max(64), slot_bytes: SLOT, run_header: 32 }
}

impl Filled {
    fn new(kind: LayoutKind, space: Space) -> Filled {
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut layout = AnyLayout::new(kind, space);
        let mut objects = Vec::new();
        loop {
            let slots = random.u32(1..=LARGEST);
            let Some(object) = place(&mut layout, slots) else { break };
            objects.push(object);
        }
        let mut filled = Filled { layout, objects, random, refused: 0 };
        for _ in 0..filled.objects.len() / 5 {
            let object = filled.take();
            object.runs().for_each(|run| filled.layout.release(run));
        }
        filled
    }

    fn take(&mut self) -> Object {
        let number = self.random.usize(..self.objects.len());
        self.objects.swap_remove(number)
    }

    /// Objects that are released before as many are placed: few of those there are.
    fn batch(&self) -> usize {
        (self.objects.len() / 500).clamp(1, 1000)
    }

    /// Releases and places `pairs` objects; the nanoseconds that a place and a release took.
    fn churn(&mut self, pairs: usize) -> (f64, f64) {
        let batch = self.batch();
        let (mut placing, mut releasing) = (Vec::new(), Vec::new());
        for _ in 0..pairs.div_ceil(batch) {
            let out: Vec<Object> = (0..batch).map(|_| self.take()).collect();
            let start = Instant::now();
            for run in out.iter().flat_map(Object::runs) {
                self.layout.release(run);
            }
            releasing.push(start.elapsed());
            let mut sizes: Vec<u32> = out.iter().map(|object| object.slots).collect();
            self.random.shuffle(&mut sizes);
            let mut runs = Vec::with_capacity(batch * 16);
            let mut ends = Vec::with_capacity(batch);
            let start = Instant::now();
            for slots in &sizes {
                let placed = self.layout.place(u64::from(*slots) * u64::from(SLOT), &mut runs);
                ends.push(if placed { Some(runs.len()) } else { None });
            }
            placing.push(start.elapsed());
            let mut from = 0;
            for (slots, end) in sizes.into_iter().zip(ends) {
                let Some(end) = end else {
                    self.refused += 1;
                    continue;
                };
                self.objects.push(Object::new(slots, &runs[from..end]));
                from = end;
            }
        }
        let clock = clock_cost();
        let each = |took| (median(took) - clock).max(0.0) / batch as f64;
        (each(placing), each(releasing))
    }
}

fn place(layout: &mut AnyLayout, slots: u32) -> Option<Object> {
    let mut runs = Vec::with_capacity(1);
    let placed = layout.place(u64::from(slots) * u64::from(SLOT), &mut runs);
    placed.then(|| Object::new(slots, &runs))
}

fn heap_moves(layout: &AnyLayout) -> u64 {
    match layout {
        AnyLayout::Unified(unified) => unified.heap_moves(),
        _ => 0,
    }
}

fn median(mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    took[took.len() / 2].as_nanos() as f64
}

/// What reading the clock twice adds to a batch, in nanoseconds.
fn clock_cost() -> f64 {
    median((0..10_001).map(|_| Instant::now().elapsed()).collect())
}

/// Nanoseconds to occupy a run, all runs of the space in ascending order, as recovery does.
fn recover(kind: LayoutKind, space: Space, filled: &Filled) -> f64 {
    let mut runs: Vec<Run> = filled.objects.iter().flat_map(Object::runs).collect();
    runs.sort_unstable();
    let mut layout = AnyLayout::new(kind, space);
    // As in `churn`, the last batch, which may be short, included.
    let batch = runs.len().min(1000);
    let mut took = Vec::new();
    for batch in runs.chunks(batch) {
        let start = Instant::now();
        for run in batch {
            assert!(layout.occupy(*run));
        }
        took.push(start.elapsed());
    }
    assert_eq!(layout.free_pieces(), filled.layout.free_pieces());
    (median(took) - clock_cost()).max(0.0) / batch as f64
}

fn measure(layout: &'static str, kind: LayoutKind, meant: u32) -> Figure {
    let space = space(meant);
    let mut filled = Filled::new(kind, space);
    filled.churn((PAIRS / 5).max(filled.objects.len()));
    let before = heap_moves(&filled.layout);
    let (place, release) = filled.churn(PAIRS);
    let moves = heap_moves(&filled.layout) - before;
    let pieces = filled.layout.free_pieces();
    let beside = filled.layout.memory_bytes() - filled.layout.map().memory_bytes();
    let runs: usize = filled.objects.iter().map(|object| object.runs().count()).sum();
    Figure {
        layout,
        meant,
        pieces,
        objects: filled.objects.len(),
        place,
        release,
        occupy: recover(kind, space, &filled),
        bytes: beside as f64 / pieces as f64,
        runs: runs as f64 / filled.objects.len() as f64,
        moves: moves as f64 / PAIRS as f64,
        refused: filled.refused,
    }
}

fn csv(figures: &[Figure]) -> String {
    let mut text = String::from(
        "layout,space_for_pieces,free_pieces,objects,place_ns,release_ns,occupy_ns,\
         bytes_per_piece,runs_per_object,\
         heap_moves,refused\n",
    );
    for figure in figures {
        let Figure { layout, meant, pieces, objects, place, release, .. } = figure;
        let Figure { occupy, bytes, runs, moves, refused, .. } = figure;
        writeln!(
            text,
            "{layout},{meant},{pieces},{objects},{place:.0},{release:.0},{occupy:.0},\
             {bytes:.1},{runs:.2},\
             {moves:.1},{refused}"
        )
        .unwrap();
    }
    text
}

/// A power of ten in few characters.
fn count(number: f64) -> String {
    match number {
        1e6.. => format!("{:.0} M", number / 1e6),
        1e3.. => format!("{:.0} k", number / 1e3),
        _ => format!("{number:.0}"),
    }
}

/// Nanoseconds over the size of the space in free pieces of UNIFIED, on a logarithmic axis, so that
/// O(log n) is a straight line.
fn plot(figures: &[Figure], path: &Path) {
    let root = SVGBackend::new(path, (760, 420)).into_drawing_area();
    root.fill(&WHITE).unwrap();
    let pieces = || figures.iter().map(|figure| f64::from(figure.meant));
    let highest = figures.iter().map(|figure| figure.place.max(figure.release)).fold(1.0, f64::max);
    let last = pieces().fold(10.0, f64::max) * 1.2;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .margin_right(36)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d((10.0..last).log_scale(), 0.0..highest * 1.05)
        .unwrap();
    chart
        .configure_mesh()
        .x_desc("free pieces of unified; the others in the same space")
        .y_desc("ns per call")
        .x_label_formatter(&|pieces| count(*pieces))
        .y_label_formatter(&|ns| format!("{ns:.0}"))
        .light_line_style(WHITE)
        .draw()
        .unwrap();
    let colours = [
        ("unified", RGBColor(190, 30, 45)),
        ("stream 16", RGBColor(20, 80, 160)),
        ("buddy", RGBColor(40, 130, 60)),
    ];
    for (layout, colour) in colours {
        let own = || figures.iter().filter(move |figure| figure.layout == layout);
        let places = own().map(|figure| (f64::from(figure.meant), figure.place));
        let releases = own().map(|figure| (f64::from(figure.meant), figure.release));
        chart
            .draw_series(LineSeries::new(places, colour.stroke_width(2)))
            .unwrap()
            .label(format!("{layout}, place"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
        chart
            .draw_series(DashedLineSeries::new(releases, 5, 4, colour.stroke_width(2)))
            .unwrap()
            .label(format!("{layout}, release"))
            .legend(move |(x, y)| {
                let dash = move |from: i32| {
                    PathElement::new([(x + from, y), (x + from + 6, y)], colour.stroke_width(2))
                };
                EmptyElement::at((0, 0)) + dash(0) + dash(9) + dash(18)
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .legend_area_size(32)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()
        .unwrap();
    root.present().unwrap();
}

/// How full a space stays, and what it takes.
struct Fullness {
    /// Part of the slots that objects lie in.
    used: f64,
    evictions_per_place: f64,
    runs_per_object: f64,
}

/// Places objects, evicting others until each fits, three times as many as the space holds.
fn fullness(kind: LayoutKind, slots: u32, oldest_first: bool) -> Fullness {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut layout = AnyLayout::new(kind, Space { slots, slot_bytes: SLOT, run_header: 32 });
    let mut objects: VecDeque<Object> = VecDeque::new();
    let (mut evictions, mut used, mut counted) = (0, 0.0, 0);
    let total = slots / (LARGEST / 2) * 4;
    for number in 0..total {
        let size = random.u32(1..=LARGEST);
        let object = loop {
            if let Some(object) = place(&mut layout, size) {
                break object;
            }
            if !oldest_first {
                let other = random.usize(..objects.len());
                objects.swap(0, other);
            }
            let gone = objects.pop_front().expect("an empty space takes any object");
            gone.runs().for_each(|run| layout.release(run));
            evictions += usize::from(number >= total / 2);
        };
        objects.push_back(object);
        if number >= total / 2 {
            used += f64::from(layout.used_slots()) / f64::from(slots);
            counted += 1;
        }
    }
    let runs: usize = objects.iter().map(|object| object.runs().count()).sum();
    Fullness {
        used: used / f64::from(counted),
        evictions_per_place: evictions as f64 / f64::from(counted),
        runs_per_object: runs as f64 / objects.len() as f64,
    }
}

fn print_fullness() {
    let slots = 1 << 20;
    println!("layout      evicts   % used  evictions/place  runs/object");
    let mut all = kinds(slots).to_vec();
    all.insert(2, ("stream 1", LayoutKind::Stream { runs_max: 1 }));
    all.insert(3, ("stream 4", LayoutKind::Stream { runs_max: 4 }));
    for (name, kind) in all {
        for (order, oldest_first) in [("oldest", true), ("random", false)] {
            let found = fullness(kind, slots, oldest_first);
            println!(
                "{name:10} {order:7} {:7.1} {:16.2} {:12.2}",
                found.used * 100.0,
                found.evictions_per_place,
                found.runs_per_object
            );
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let most = arguments.next().map_or(10_000_000, |most| most.parse().expect("MAX_PIECES"));
    let directory = arguments.next();
    let mut figures = Vec::new();
    println!(
        "layout       pieces    objects  place ns  release ns  occupy ns  bytes/piece  runs  \
         heap moves"
    );
    let mut pieces = 10;
    while pieces <= most {
        for (name, kind) in kinds(space(pieces).slots) {
            let figure = measure(name, kind, pieces);
            println!(
                "{name:9} {:8} {:10} {:9.0} {:11.0} {:10.0} {:12.1} {:5.2} {:11.1}",
                figure.pieces,
                figure.objects,
                figure.place,
                figure.release,
                figure.occupy,
                figure.bytes,
                figure.runs,
                figure.moves
            );
            figures.push(figure);
        }
        pieces *= 10;
    }
    print_fullness();
    if let Some(directory) = directory {
        let directory = Path::new(&directory);
        std::fs::write(directory.join("allocation-cost.csv"), csv(&figures)).unwrap();
        plot(&figures, &directory.join("allocation-cost.svg"));
    }
}
