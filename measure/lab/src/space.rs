//! Ways of keeping objects on a disk: the product's engine, the papers' space managers, and other
//! systems' caches on a file system, real or modelled.

pub mod baselines;
pub mod engine;
pub mod file_caches;
pub mod file_costs;
pub mod file_system;
pub mod manager;
pub mod modelled_directory;
pub mod real_directory;
pub mod real_engine;
