//! The commands of the lab through its real binary.

mod advise;
mod disk;
mod missratio;
mod replay;
mod space;
mod trace;
