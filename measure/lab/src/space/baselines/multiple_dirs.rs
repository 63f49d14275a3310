//! M3 MULTIPLE-DIRS: one file per object; the objects of one origin server in one directory, all
//! directories on one level. A directory is created for a server's first object and remains.

use super::file_per_object::{Place, Placement};
use workload::request::Object;

/// One directory per origin server. A file is named by its object's number.
pub struct MultipleDirs;

impl Placement for MultipleDirs {
    fn directories(&self) -> Vec<String> {
        Vec::new()
    }

    fn place(&mut self, object: &Object) -> Place {
        let directory = format!("server-{:08X}", object.site);
        let path = format!("{directory}/{:08X}", object.id);
        Place { directory: Some(directory), path }
    }
}
