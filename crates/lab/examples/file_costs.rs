//! Figure 3 of "Secondary Storage Management for Web Proxies" from the model: what it costs to
//! create and delete small files, beside what the paper says.
//!
//!     cargo run -p lab --example file_costs

#![allow(clippy::print_stdout)]

use lab::space::file_caches::{drive, write_through_drive};
use lab::space::file_costs::{DeleteOrder, FileCost, measure};
use lab::space::manager::SpaceError;
use sim::drives::mechanical::{Config, MechanicalDrive};
use sim::ffs::Parameters;

const SIZES: [u64; 7] = [0, 1_024, 2_048, 4_096, 6_144, 8_192, 10_240];

fn main() -> Result<(), SpaceError> {
    let ufs = Parameters::solaris_ufs(64 << 20);
    let lazy = Parameters { directory_inodes: false, ..ufs };
    show("as shipped (the drive acknowledges early)", drive("st15150", Config::Shipped)?, ufs)?;
    let through = write_through_drive("st15150", Config::Shipped)?;
    show("writes acknowledged from the medium", through.clone(), ufs)?;
    show("the same, directories' inodes with the next sync", through, lazy)?;
    println!("the paper: create > 20 ms when empty, about 40 ms of 10 KB;");
    println!(
        "delete 10 to 20 ms (caption), > 20 ms when not empty (text); 4 KB, both: about 50 ms"
    );
    Ok(())
}

fn show(title: &str, drive: MechanicalDrive, ufs: Parameters) -> Result<(), SpaceError> {
    println!("{title}\n  bytes  create ms  delete ms  both ms");
    for cost in measure(drive, ufs, 12, &SIZES, DeleteOrder::Forward)? {
        let FileCost { size, create_ms, delete_ms } = cost;
        println!("{size:7}  {create_ms:9.1}  {delete_ms:9.1}  {:7.1}", create_ms + delete_ms);
    }
    println!();
    Ok(())
}
