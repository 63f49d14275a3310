//! K8: the paper's evaluation. Two servers and a third node with the disk, 300 connections, round
//! robin; and each policy of the figures.

use std::sync::Arc;

use fleet::class::{Class, Copies, Preset};
use fleet::{ClassTable, Policy};

use super::counts::{Counts, Source};
use super::hardware::Hardware;
use super::load::{self, Length};
use super::nodes::{Notified, Setup, Siblings, Storage};
use crate::experiment::{Axis, Context, Failed, Outcome, Parameter, Plot, Scale, Stated, Table};
use crate::experiments::shared_runs::Runs;
use workload::generator::documents::{DIRECTORIES, DocumentSet, Documents, FileCounts};

pub(super) const PARAMETERS: [Parameter; 11] = [
    Parameter { name: "nodes", value: "two that serve, a third with the disk", from: "4.1" },
    Parameter {
        name: "memory",
        value: "200 MB of 256 for documents, on each node",
        from: "4.1: somewhat smaller than 256; by how much is ours",
    },
    Parameter {
        name: "documents",
        value: "SPECweb99's for 300 connections: 222 directories of 36 files, 1.06 GB (quick: \
                1/16 of memory and documents)",
        from: "4.1 and its reference 17",
    },
    Parameter {
        name: "blocks",
        value: "a document takes whole blocks of 4 KB in memory, on disks and between nodes; it \
                leaves memory as a whole",
        from: "2; the size is ours",
    },
    Parameter { name: "requests", value: "50, 35, 14 and 1% by class", from: "section 3" },
    Parameter {
        name: "files of a class",
        value: "nine in each directory; both by Zipf's law, exponent 1",
        from: "reference 17; the table \"roots\" has 1 GB of files in the proportion of the roots \
               of their requests, exponent 0.8, and no blocks",
    },
    Parameter {
        name: "page cache",
        value: "servers keep what they read, from the discard cache too",
        from: "ours: a CARD is a disk below it; olaru-tichy-open has the other",
    },
    Parameter { name: "connections", value: "300, round robin over the two", from: "section 4" },
    Parameter {
        name: "processor",
        value: "1 ms a request and 25 µs a KiB; 0.1 ms and 8 µs for another node",
        from: "ours, for 350 MHz",
    },
    Parameter {
        name: "networks",
        value: "100 MB/s between nodes, 12.5 MB/s to all clients",
        from: "4.1; of Myrinet's 250 MB/s what the bus leaves",
    },
    Parameter {
        name: "disk",
        value: "5,400 rpm, 8.5 ms, 9 MB/s, a quarter in use",
        from: "4.1: IBM DCAS-34330W; the rate is ours",
    },
];

/// Bytes of a block of the servers' file system.
const BLOCK: u64 = 4_096;

/// The seed of all figures, so that they share their runs.
const SEED: u64 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Disks {
    Local,
    /// In one of the servers, which reads it for the other one.
    OneServer,
    Third,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Case {
    pub(super) policy: &'static str,
    pub(super) disks: Disks,
    pub(super) set: DocumentSet,
    /// Bytes of memory for documents.
    pub(super) memory: u64,
    /// Bytes of a block.
    pub(super) block: u64,
    /// Bytes that a disk reads at a time.
    pub(super) piece: u64,
    /// Processor times and clients' link times, in percent of the paper's.
    pub(super) processor: u32,
    /// True if all nodes have hints, not just the owner.
    pub(super) hints_of_all: bool,
    /// True if every server keeps what it reads, as a page cache above a block device does.
    pub(super) page_cache: bool,
    /// True if a node that reads its disk for another node looks into its memory first.
    pub(super) memory_for_peers: bool,
    /// Requests before counting starts, and those that are counted.
    pub(super) length: [u64; 2],
    pub(super) seed: u64,
}

impl Case {
    /// Returns the paper's case with this policy.
    pub(super) fn new(context: &Context<'_>, policy: &'static str) -> Case {
        let divisor = match context.scale() {
            Scale::Smoke => 256,
            Scale::Quick => 16,
            Scale::Full => 1,
        };
        let disks = if policy == "replicated" { Disks::Local } else { Disks::Third };
        let bytes = (1 << 30) / divisor;
        let counts = FileCounts::Directories((DIRECTORIES / divisor as u32).max(1));
        let set = DocumentSet { shares: DocumentSet::PAPER, counts, skew: 100, bytes };
        Case {
            policy,
            disks,
            set,
            memory: (200 << 20) / divisor,
            block: BLOCK,
            piece: Hardware::PAPER.disk.piece,
            processor: 100,
            hints_of_all: true,
            page_cache: true,
            memory_for_peers: true,
            length: context.size([300, 600], [30_000, 30_000], [300_000, 300_000]),
            seed: SEED,
        }
    }

    /// Returns the case with 1 GB of files in the proportion of the roots of their requests, and
    /// without blocks.
    pub(super) fn with_roots(self) -> Case {
        let set = DocumentSet { counts: FileCounts::Roots, skew: 80, ..self.set };
        Case { set, block: 1, ..self }
    }

    fn setup(&self) -> Result<Setup, Failed> {
        let preset: Preset = self.policy.parse().map_err(|why| Failed(format!("{why}")))?;
        let table = preset.table(1).map_err(|why| Failed(why.to_string()))?;
        let table = if self.page_cache { with_page_cache(&table)? } else { table };
        let mut hardware = Hardware::PAPER;
        hardware.disk.piece = self.piece;
        let scaled = |time: u64| time * u64::from(self.processor) / 100;
        (hardware.client, hardware.peer) = (hardware.client.map(scaled), hardware.peer.map(scaled));
        hardware.clients = hardware.clients * 100 / u64::from(self.processor);
        let weights = match self.disks {
            Disks::Local => vec![0, 0],
            Disks::OneServer => vec![0, 1],
            Disks::Third => vec![0, 0, 1],
        };
        Ok(Setup {
            hardware,
            memory: self.memory,
            block: self.block,
            storage: Storage::All,
            weights,
            servers: vec![0, 1],
            memory_for_peers: self.memory_for_peers,
            table,
            siblings: Siblings::None,
            bound: None,
            hot: None,
            reports_owners: false,
            hints: if self.hints_of_all { Notified::All } else { Notified::Owner },
            load_age: 0,
            offers: 1 << 40,
            timeout: 1_000_000_000_000,
            breakers: false,
            origin: 0,
            seed: self.seed,
        })
    }

    fn run(&self) -> Result<Counts, Failed> {
        let documents = Arc::new(Documents::classes(&self.set, self.seed));
        let [warm, counted] = self.length;
        load::closed(self.setup()?, &documents, 300, Length { warm, counted })
    }
}

/// Lets nodes that read from the disk node keep what they read, whatever else the policy says.
fn with_page_cache(table: &ClassTable) -> Result<ClassTable, Failed> {
    let copies = |copies| match copies {
        Copies::DiscardCache => Copies::Inclusive,
        Copies::None => Copies::Exclusive,
        other => other,
    };
    let keeping = |policy: Policy| Policy { copies: copies(policy.copies), ..policy };
    let classes = table.iter().take(table.iter().len() - 1);
    let classes = classes.map(|class| Class { policy: keeping(class.policy), ..class.clone() });
    let table = ClassTable::new(1, classes.collect(), keeping(table.rest().policy));
    table.map_err(|why| Failed(why.to_string()))
}

static RUNS: Runs<Case, Counts> = Runs::new();

/// Returns the results of the cases; runs those that are new.
pub(super) fn runs(context: &mut Context<'_>, cases: &[Case]) -> Result<Vec<Counts>, Failed> {
    RUNS.figures(context, cases, |case| format!("{case:?}"), |case, _| case.run())
}

pub(super) struct Arm {
    pub(super) label: &'static str,
    pub(super) policy: &'static str,
    pub(super) disks: Disks,
    /// The paper's statement on the request rate, relative to the replicated solution.
    pub(super) paper: Stated,
}

pub(super) const REPLICATED: Arm = Arm {
    label: "replicated",
    policy: "replicated",
    disks: Disks::Local,
    paper: Stated::Number(1.0),
};

/// "Slightly better" than the replicated solution, "very close" to it, better and worse: the text
/// has no numbers, and the bars of the figures are not in it.
pub(super) const SLIGHTLY_BETTER: Stated = Stated::Range(1.0, 1.1);
pub(super) const VERY_CLOSE: Stated = Stated::Range(0.9, 1.0);
pub(super) const BETTER: Stated = Stated::AtLeast(1.0);
pub(super) const WORSE: Stated = Stated::AtMost(1.0);

/// The arms of a figure and their results.
pub(super) struct Compared {
    /// Request rates relative to the first arm.
    pub(super) relative: Vec<f64>,
    pub(super) counts: Vec<Counts>,
    /// The same with files in the proportion of the roots of their requests.
    pub(super) roots: Vec<f64>,
    /// The same with processors and the clients' link ten times as fast, so that disks decide.
    pub(super) fast: Vec<f64>,
    arms: Vec<(&'static str, Stated)>,
}

/// Runs the arms of a figure; the others are compared with the first.
pub(super) fn compare(context: &mut Context<'_>, arms: &[Arm]) -> Result<Compared, Failed> {
    let case = |arm: &Arm| Case { disks: arm.disks, ..Case::new(context, arm.policy) };
    let cases: Vec<Case> = arms.iter().map(case).collect();
    let by_roots: Vec<Case> = cases.iter().copied().map(Case::with_roots).collect();
    let fast: Vec<Case> = cases.iter().map(|case| Case { processor: 10, ..*case }).collect();
    let counts = runs(context, &cases)?;
    let relative = relative(&counts);
    let roots = self::relative(&runs(context, &by_roots)?);
    let fast = self::relative(&runs(context, &fast)?);
    let arms = arms.iter().map(|arm| (arm.label, arm.paper)).collect();
    Ok(Compared { relative, counts, roots, fast, arms })
}

/// Returns request rates relative to the first.
fn relative(counts: &[Counts]) -> Vec<f64> {
    let first = counts.first().map_or(f64::NAN, Counts::rate);
    counts.iter().map(|counts| counts.rate() / first).collect()
}

impl Compared {
    /// Formats the rates of an arm with SPECweb99's files, with processors and the clients' link
    /// ten times as fast, and with files by the roots of their requests.
    pub(super) fn words(&self, arm: usize) -> String {
        let [stated, fast, roots] = [&self.relative, &self.fast, &self.roots].map(|all| all[arm]);
        format!("{stated:.2} ({fast:.2}; {roots:.2})")
    }

    /// Returns the outcome with `why` as its explanation. `order` has the arms of which the paper
    /// puts the first ahead of the second.
    pub(super) fn outcome(&self, title: &str, order: &[[usize; 2]], why: String) -> Outcome {
        let mut relative = Table::new("relative", "Requests a second, replicated = 1");
        let mut roots = Table::new("roots", "The same, files by the roots of their requests");
        let quick = "The same, processors and the clients' link ten times as fast";
        let mut fast = Table::new("fast", quick);
        for (((label, _), by_roots), by_fast) in self.arms.iter().zip(&self.roots).zip(&self.fast) {
            roots.row(*label, "×", Stated::Nothing, *by_roots);
            fast.row(*label, "×", Stated::Nothing, *by_fast);
        }
        let ahead = "One arm by another that the paper puts behind it; less than 1% is a tie";
        let mut pairs = Table::new("order", ahead);
        pairs.pairs = true;
        for [ahead, behind] in order {
            let what = format!("{} by {}", self.arms[*ahead].0, self.arms[*behind].0);
            let ours = self.relative[*ahead] / self.relative[*behind];
            pairs.row(what, "×", Stated::AtLeast(1.01), ours);
        }
        let mut detail = Table::new("detail", "What became of the requests");
        let all = self.arms.iter().zip(&self.relative).zip(&self.counts);
        for (((label, paper), ours), counts) in all {
            relative.row(*label, "×", *paper, *ours);
            let mut row = |what: &str, unit: &str, number: f64| {
                detail.row(format!("{label}: {what}"), unit, Stated::Nothing, number);
            };
            row("requests", "1/s", counts.rate());
            row("response time", "ms", counts.mean_ms());
            row("in own memory", "%", counts.share(&[Source::Memory]));
            row("in another memory", "%", counts.share(&[Source::PeerMemory]));
            row("reads of a disk", "%", counts.percent(counts.disk_reads));
            row("busiest disk", "%", counts.busiest_disk());
            row("busiest processor", "%", counts.busiest_processor());
        }
        let labels = || self.arms.iter().map(|(label, _)| *label);
        let speed = Plot::bars("relative", title, labels(), Axis::linear("replicated = 1"))
            .ours_bars("requests a second", self.relative.iter().copied())
            .note("The paper's text orders its bars and gives no numbers.");
        let shares = |of: fn(&Counts) -> f64| self.counts.iter().map(of).collect::<Vec<f64>>();
        let where_from =
            Plot::bars("sources", "Where answers came from", labels(), Axis::linear("%"))
                .ours_bars("own memory", shares(|counts| counts.share(&[Source::Memory])))
                .ours_bars("another memory", shares(|counts| counts.share(&[Source::PeerMemory])))
                .ours_bars(
                    "a disk",
                    shares(|counts| counts.share(&[Source::Disk, Source::PeerDisk])),
                );
        Outcome::new(why)
            .table(relative)
            .table(pairs)
            .table(roots)
            .table(fast)
            .table(detail)
            .plot(speed)
            .plot(where_from)
    }
}
