//! M1 SIMPLE: one file per object, all in one directory.

use super::file_per_object::{Place, Placement};
use workload::request::Object;

/// One directory for all objects. A file is named by its object's number.
pub struct Simple;

impl Placement for Simple {
    fn directories(&self) -> Vec<String> {
        Vec::new()
    }

    fn place(&mut self, object: &Object) -> Place {
        Place { directory: None, path: format!("{:08X}", object.id) }
    }
}
