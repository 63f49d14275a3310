//! Configuration templates: texts with names in angle brackets, such as `<listen>`, for values.

/// Returns the text with its names replaced by their values.
///
/// # Errors
/// Fails if a name has no value.
pub fn fill(text: &str, values: &[(&str, String)]) -> Result<String, String> {
    let filled = values
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("<{name}>"), value));
    match filled.find('<').and_then(|at| Some((at, filled[at..].find('>')?))) {
        Some((at, len)) => Err(format!("{} stands for nothing", &filled[at..=at + len])),
        None => Ok(filled),
    }
}

#[test]
fn names_are_replaced_and_unknown_ones_are_named() {
    let values = [("a", "1".to_owned()), ("b", "2".to_owned())];
    assert_eq!(fill("x <a>{ <b> <a> }", &values), Ok("x 1{ 2 1 }".to_owned()));
    assert!(fill("<c>", &values).is_err_and(|why| why.contains("<c>")));
}
