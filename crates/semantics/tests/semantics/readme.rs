//! The README shows the example that runs.

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains(include_str!("../../examples/reuse_response.rs")));
}
