//! M11, figure 3: the costs of creating and deleting a small file.

use sim::drives::mechanical::Config;
use sim::ffs::Parameters;

use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use crate::space::file_caches;
use crate::space::file_costs::{DeleteOrder, FileCost, measure};

/// The experiment `markatos-fig-3`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "markatos-fig-3",
    paper: Paper::Markatos,
    place: "figure 3",
    title: "Costs of creating and deleting a file, by its size",
    parameters: &[
        Parameter { name: "files", value: "64 of each size in a directory", from: "figure 3" },
        Parameter {
            name: "directories",
            value: "12 (quick: 4), each in another cylinder group",
            from: "ours: costs in one are whole turns of the disk",
        },
        Parameter {
            name: "drive",
            value: "ST15150, 7,200 rpm, writes through",
            from: "Methodology; docs/research/models.md",
        },
        Parameter { name: "file system", value: "Solaris UFS", from: "Methodology" },
    ],
    seconds: [1, 3],
    run,
};

const SIZES: [u64; 7] = [0, 1_024, 2_048, 4_096, 6_144, 8_192, 10_240];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let directories = context.pick(4, 12);
    let orders = [("in order", DeleteOrder::Forward), ("in reverse", DeleteOrder::Backward)];
    let costs = context.variants(orders, |_, order| {
        let drive = file_caches::write_through_drive("st15150", Config::Shipped)?;
        let parameters = Parameters::solaris_ufs(64 << 20);
        Ok(measure(drive, parameters, directories, &SIZES, order)?)
    })?;
    let [forward, backward] = &costs[..] else {
        return Err("not as many results as variants".into());
    };
    let of = |costs: &[FileCost], size: u64| {
        let found = costs.iter().find(|cost| cost.size == size).copied();
        found.unwrap_or(FileCost { size, create_ms: f64::NAN, delete_ms: f64::NAN })
    };

    let (empty, small, large) = (of(forward, 0), of(forward, 4_096), of(forward, 10_240));
    let mut table = Table::new("costs", "Costs of a file, deleted in the order of creation");
    table.row("create, empty", "ms", Stated::AtLeast(20.0), empty.create_ms);
    table.row("create, 10 KB", "ms", 40.0, large.create_ms);
    table.row("delete, empty", "ms", 10.0..=20.0, empty.delete_ms);
    table.row("delete, 4 KB", "ms", Stated::AtLeast(20.0), small.delete_ms);
    table.row("create and delete, 4 KB", "ms", 50.0, small.create_ms + small.delete_ms);
    let mut reverse = Table::new("reverse", "The same, the last file deleted first");
    for cost in backward {
        let what = format!("delete, {} bytes", cost.size);
        reverse.row(what, "ms", Stated::Nothing, cost.delete_ms);
    }

    let kb = |cost: &FileCost| cost.size as f64 / 1_024.0;
    let plot = Plot::lines(
        "by-size",
        EXPERIMENT.title,
        Axis::linear("file (KB)").range(0.0, 10.5),
        Axis::linear("time (ms)").range(0.0, 60.0),
    )
    .paper("create", [(0.0, 20.0), (10.0, 40.0)])
    .ours("create", forward.iter().map(|cost| (kb(cost), cost.create_ms)))
    .paper("delete", [(4.0, 20.0), (10.0, 20.0)])
    .ours("delete", forward.iter().map(|cost| (kb(cost), cost.delete_ms)))
    .paper("create and delete", [(4.0, 50.0)])
    .ours(
        "create and delete",
        forward.iter().map(|cost| (kb(cost), cost.create_ms + cost.delete_ms)),
    )
    .note("The paper's points are those that its text names; \"more than\" is drawn as equal.");
    let why = format!(
        "Creating an empty file takes {:.1} ms and deleting it {:.1} ms; creating and deleting 4 \
         KB take {:.1} ms. This measurement is the one that set inputs of the file system: that \
         the directory's inode is written before a call returns, that data leaves when a file is \
         closed, and that the drive writes through. So agreement here is by construction, and the \
         paper's results on whole caches are what tests it. In a single directory the costs are \
         whole turns of 8.33 ms, which is why several are measured. The paper's caption and text \
         differ on the order of deletion and on its cost (10 to 20 ms, or more than 20); both \
         orders are shown.",
        empty.create_ms,
        empty.delete_ms,
        small.create_ms + small.delete_ms,
    );
    Ok(Outcome::new(why).table(table).table(reverse).plot(plot))
}
