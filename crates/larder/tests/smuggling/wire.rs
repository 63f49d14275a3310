//! The texts of the tables as the bytes to be sent.

use crate::answers::EVIL;

/// Returns the text of a case with its names in braces filled in. `id` is the name of its paths.
pub fn fill_in(text: &str, id: &str) -> String {
    let smuggled = format!("GET /{id}/smuggled HTTP/1.1\r\nHost: site.test\r\n\r\n");
    let flood = "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n".repeat(5000);
    text.replace("{S}", &smuggled)
        .replace("{L}", &smuggled.len().to_string())
        .replace("{X}", &format!("{:x}", smuggled.len()))
        .replace("{E}", EVIL)
        .replace("{FLOOD}", &flood)
        .replace("{ID}", id)
}

/// Returns the bytes with the numbers of the characters.
pub fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).expect("a byte")).collect()
}
