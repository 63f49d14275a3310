//! Objects: their names, their properties, which follow from the name, and their bodies.

mod ask;
mod content;
mod fields;
mod life;
mod name;
mod served_from;

pub use ask::{Ask, Condition, Method};
pub use content::{Content, fill, first_wrong};
pub use fields::{ANSWER_FIELD, NODE_FIELD, REQUEST_FIELD, RESULT_FIELD};
pub use life::{FIRST_MODIFIED, Life, date, now};
pub use name::{Kind, Object};
pub use served_from::ServedFrom;
