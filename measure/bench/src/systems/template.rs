//! Configuration templates: texts with names in angle brackets, such as `<listen>`, for values.

/// Returns the text with its names replaced by their values.
///
/// # Errors
/// Fails if a name has no value.
pub fn fill(text: &str, values: &[(&str, String)]) -> Result<String, String> {
    let filled = values
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("<{name}>"), value));
    let is_name = |text: &&str| text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    let mut names = filled.split('<').skip(1).filter_map(|rest| Some(rest.split_once('>')?.0));
    match names.find(is_name) {
        Some(name) => Err(format!("<{name}> stands for nothing")),
        None => Ok(filled),
    }
}

#[test]
fn names_are_replaced_and_unknown_ones_are_named() {
    let values = [("a", "1".to_owned()), ("b", "2".to_owned())];
    assert_eq!(fill("x <a>{ <b> <a> }", &values), Ok("x 1{ 2 1 }".to_owned()));
    assert!(fill("<c>", &values).is_err_and(|why| why.contains("<c>")));
    assert_eq!(
        fill("<Directory /> <a> </Directory>", &values),
        Ok("<Directory /> 1 </Directory>".into())
    );
}
