//! The baselines of the papers, which are ways of using a file system: a file per object, placed in
//! three ways (M1 SIMPLE, M2 SQUID, M3 MULTIPLE-DIRS), and objects of similar size together in a
//! file (M4 BUDDY).

mod buddy_files;
mod file_per_object;
mod multiple_dirs;
mod simple;
mod squid;

pub use buddy_files::{BLOCK, BuddyFiles, THRESHOLD_BLOCKS};
pub use file_per_object::{CallSizes, FilePerObject, Place, Placement, SyncPolicy};
pub use multiple_dirs::MultipleDirs;
pub use simple::Simple;
pub use squid::Squid;
