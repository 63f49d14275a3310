//! A message is the same however its bytes are split.

use http::Method;

use crate::draw::{damage, for_seed, requests, response};
use crate::reader;

#[test]
fn requests_are_the_same_however_they_come() {
    for_seed(300, |rng| {
        let mut text = requests(rng);
        if rng.bool() {
            damage(rng, &mut text);
        }
        let whole = reader::requests(&text, text.len());
        for size in 1..text.len() {
            let found = reader::requests(&text, size);
            assert_eq!(found, whole, "{:?} by {size}", text.escape_ascii().to_string());
        }
    });
}

#[test]
fn responses_are_the_same_however_they_come() {
    for_seed(300, |rng| {
        let mut text = response(rng);
        if rng.bool() {
            damage(rng, &mut text);
        }
        let method = if rng.u8(..4) == 0 { Method::HEAD } else { Method::GET };
        let whole = reader::response(&text, &method, text.len()).map_err(drop);
        for size in 1..text.len() {
            let found = reader::response(&text, &method, size).map_err(drop);
            assert_eq!(found, whole, "{:?} by {size}", text.escape_ascii().to_string());
        }
    });
}

#[test]
fn a_part_of_a_message_is_no_whole_one() {
    for_seed(100, |rng| {
        let text = response(rng);
        let whole = reader::response(&text, &Method::GET, text.len());
        // HTTP/1.0 has no chunks.
        let Ok(Some((message, until_close))) = whole else { return };
        for length in 0..text.len() {
            let found = reader::response(&text[..length], &Method::GET, length.max(1));
            let Ok(Some((part, _))) = found else { continue };
            // Truncation of a body that ends with the connection goes unnoticed, and bytes after a
            // response without a body do not belong to it.
            assert!(until_close || part == message, "{:?}", text.escape_ascii().to_string());
        }
    });
}
