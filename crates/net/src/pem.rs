//! Locates faults in PEM files. The parser of certificates and keys only reports that a file is
//! wrong, but operators need to know where.

use rustls_pki_types::pem;

/// Start and end markers of a block (RFC 7468, 2).
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// Finds the fault in a file that the parser rejected with `error`. Returns its line number,
/// counted from 1, if it has one, and a sentence. The sentence contains none of a block's content.
pub fn fault(text: &[u8], error: &pem::Error) -> (Option<usize>, String) {
    match first_fault(text) {
        Some((line, why)) => (Some(line), why),
        None => (None, in_words(error)),
    }
}

/// Returns a message that starts with `file` or `file:line` and describes the fault.
pub(crate) fn located(file: &str, expected: &str, text: &[u8], error: &pem::Error) -> String {
    match fault(text, error) {
        (Some(line), why) => format!("{file}:{line}: expected {expected} in PEM: {why}"),
        (None, why) => format!("{file}: expected {expected} in PEM: {why}"),
    }
}

fn in_words(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a block has no line that ends it",
        pem::Error::IllegalSectionStart { .. } => "a block's first line is malformed",
        pem::Error::Base64Decode(_) => "a block's content is not base64",
        pem::Error::NoItemsFound => "there is none",
        pem::Error::SectionTooLarge => "a block is too large",
        _ => "it cannot be read",
    }
    .to_owned()
}

fn first_fault(text: &[u8]) -> Option<(usize, String)> {
    let mut block: Option<(usize, String)> = None;
    let mut characters = 0;
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line.trim_ascii_end());
        let number = at + 1;
        match (&block, line.strip_prefix(BEGIN), line.strip_prefix(END)) {
            (None, Some(rest), _) => {
                let Some(label) = rest.strip_suffix(DASHES) else {
                    return Some((
                        number,
                        "the line that begins a block must end with -----".into(),
                    ));
                };
                (block, characters) = (Some((number, label.to_owned())), 0);
            }
            (Some((_, label)), None, Some(rest)) => {
                if rest.strip_suffix(DASHES) != Some(label) {
                    return Some((number, format!("expected {END}{label}{DASHES}")));
                }
                if characters % 4 != 0 {
                    let why = "the block that ends here is not base64: it is cut short";
                    return Some((number, why.to_owned()));
                }
                block = None;
            }
            (Some((begun, label)), Some(_), _) => {
                let why = format!("the block {label} that begins here has no line that ends it");
                return Some((*begun, why));
            }
            (Some(_), None, None) if line.starts_with("Proc-Type:") => {
                return Some((number, "the key has a passphrase: expected one without".to_owned()));
            }
            (Some(_), None, None) => {
                let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"+/= \t".contains(&byte);
                if !line.bytes().all(fine) {
                    return Some((number, "not base64".to_owned()));
                }
                characters += line.bytes().filter(|byte| !b" \t".contains(byte)).count();
            }
            (None, None, _) => {}
        }
    }
    let (begun, label) = block?;
    Some((begun, format!("the block {label} that begins here has no line that ends it")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_named() {
        let (begin, end) = ("-----BEGIN X-----\n", "-----END X-----\n");
        let faults = [
            (format!("a\n{begin}MII\n"), Some(2), "the block X that begins here has no line"),
            (format!("{begin}MII\n{begin}"), Some(1), "the block X that begins here has no line"),
            ("\n-----BEGIN X\n".to_owned(), Some(2), "must end with -----"),
            (format!("{begin}MIIA\n?\n{end}"), Some(3), "not base64"),
            (format!("{begin}MIIA\nMI\n{end}"), Some(4), "cut short"),
            (format!("{begin}MIIA\r\n-----END Y-----\n"), Some(3), "expected -----END X-----"),
            (format!("{begin}Proc-Type: 4,ENCRYPTED\n"), Some(2), "passphrase"),
            (format!("{begin}MIIA\n{end}"), None, "there is none"),
        ];
        for (text, line, why) in faults {
            let (at, told) = fault(text.as_bytes(), &pem::Error::NoItemsFound);
            assert!(at == line && told.contains(why), "{text:?}: {at:?} {told}");
        }
    }
}
