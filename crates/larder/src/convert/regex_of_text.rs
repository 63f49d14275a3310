//! Texts as regular expressions.

/// Returns the expression that matches a text and no other.
pub fn escaped(text: &str) -> String {
    let mut expression = String::new();
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&~-".contains(c) {
            expression.push('\\');
        }
        expression.push(c);
    }
    expression
}
