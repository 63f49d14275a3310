//! placeholder

use std::path::Path;

use crate::convert::output::Output;

pub fn convert(_path: &Path, _text: &str) -> Result<Output, String> {
    Err("not yet".to_owned())
}
