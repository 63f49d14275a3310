//! The table of `docs/research/instructions.md`: a row for each route, with its count and the
//! tolerated growth.

/// Beginning of the line that names the compiler of the counts.
const COMPILER: &str = "Counted with ";

/// Returns the count of a route in the table.
pub fn count(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().map(cells).find(|cells| cells.first() == Some(&name))?;
    row.get(1)?.replace(',', "").parse().ok()
}

/// Returns the compiler of the counts.
pub fn compiler(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix(COMPILER)?.strip_suffix('.'))
}

/// Returns the cells of a row; none for other lines.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.strip_prefix('|').and_then(|rest| rest.trim_end().strip_suffix('|'));
    inner.map(|inner| inner.split('|').map(str::trim).collect()).unwrap_or_default()
}

/// A counted row: name, count, and tolerated growth in percent.
pub type Row = (&'static str, u64, u64);

/// Returns the text with its table's rows replaced by these, and the compiler's name.
///
/// # Errors
///
/// When the text has no table.
pub fn with_rows(text: &str, rows: &[Row], compiler: &str) -> Result<String, String> {
    let is_row = |line: &&str| line.starts_with('|');
    let head: Vec<&str> = text.lines().take_while(|line| !is_row(line)).collect();
    let table: Vec<&str> = text.lines().filter(is_row).take(2).collect();
    let tail = text.lines().skip(head.len()).skip_while(is_row);
    if table.len() < 2 {
        return Err("no table to write to".into());
    }
    let rows =
        rows.iter().map(|(name, count, tolerance)| format!("| {name} | {count} | {tolerance}% |"));
    let named = |line: &str| match line.starts_with(COMPILER) {
        true => format!("{COMPILER}{compiler}."),
        false => line.to_owned(),
    };
    let lines = head.iter().chain(&table).map(|line| named(line)).chain(rows);
    let all: Vec<String> = lines.chain(tail.map(named)).collect();
    Ok(all.join("\n") + "\n")
}

#[test]
fn a_table_is_read_and_written_in_its_place() {
    let text = "words\n\nCounted with rustc 1.\n\n| path | instructions | tolerance |\n\
                |---|---:|---:|\n| a | 1 | 3% |\n| b, c | 2,000 | 3% |\n\nmore\n";
    assert_eq!((count(text, "b, c"), count(text, "d")), (Some(2_000), None));
    assert_eq!(compiler(text), Some("rustc 1"));
    let written = with_rows(text, &[("a", 3, 3), ("d", 4, 6)], "rustc 2").unwrap();
    let expected = "words\n\nCounted with rustc 2.\n\n| path | instructions | tolerance |\n\
                    |---|---:|---:|\n| a | 3 | 3% |\n| d | 4 | 6% |\n\nmore\n";
    assert_eq!(written, expected);
    assert!(with_rows("words", &[], "").is_err());
}
