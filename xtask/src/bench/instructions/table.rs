//! The table of `docs/research/instructions.md`: a row for each route, with the count of each
//! profile and the growth that is tolerated.

/// The profile whose counts stand in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Profile {
    /// The program that is shipped.
    Release,
    /// As the release, without optimisation across crates: built in a fraction of the time.
    Counted,
}

impl Profile {
    /// The name that cargo knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Release => "release",
            Profile::Counted => "counted",
        }
    }

    fn column(self) -> usize {
        match self {
            Profile::Release => 1,
            Profile::Counted => 2,
        }
    }
}

/// The beginning of the line that names the compiler of the counts.
const COMPILER: &str = "Counted with ";

/// Returns the count of a route in the table.
pub fn count(text: &str, name: &str, profile: Profile) -> Option<u64> {
    let row = text.lines().map(cells).find(|cells| cells.first() == Some(&name))?;
    row.get(profile.column())?.replace(',', "").parse().ok()
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

/// Returns the text with these rows in the place of its table's rows, and the compiler's name.
/// The counts of the other profile are kept.
///
/// # Errors
///
/// When the text has no table.
pub fn with_rows(
    text: &str,
    profile: Profile,
    rows: &[Row],
    compiler: &str,
) -> Result<String, String> {
    let is_row = |line: &&str| line.starts_with('|');
    let head: Vec<&str> = text.lines().take_while(|line| !is_row(line)).collect();
    let table: Vec<&str> = text.lines().filter(is_row).take(2).collect();
    let tail = text.lines().skip(head.len()).skip_while(is_row);
    if table.len() < 2 {
        return Err("no table to write to".into());
    }
    let cell = |name: &str, counted: u64, of: Profile| match of == profile {
        true => counted.to_string(),
        false => count(text, name, of).map_or("-".into(), |count| count.to_string()),
    };
    let rows = rows.iter().map(|(name, count, tolerance)| {
        let [release, counted] =
            [Profile::Release, Profile::Counted].map(|of| cell(name, *count, of));
        format!("| {name} | {release} | {counted} | {tolerance}% |")
    });
    let owned = |line: &&str| match line.starts_with(COMPILER) {
        true => format!("{COMPILER}{compiler}."),
        false => (*line).to_owned(),
    };
    let lines = head.iter().chain(&table).map(owned).chain(rows);
    let all: Vec<String> = lines.chain(tail.map(|line| owned(&line))).collect();
    Ok(all.join("\n") + "\n")
}

#[test]
fn a_table_is_read_and_written_in_its_place() {
    let text = "words\n\nCounted with rustc 1.\n\n| path | release | counted | tolerance |\n\
                |---|---:|---:|---:|\n| a | 1 | 5 | 3% |\n| b, c | 2,000 | - | 3% |\n\nmore\n";
    assert_eq!(count(text, "b, c", Profile::Release), Some(2_000));
    assert_eq!(count(text, "b, c", Profile::Counted), None);
    assert_eq!(count(text, "d", Profile::Release), None);
    assert_eq!(compiler(text), Some("rustc 1"));
    let rows = [("a", 3, 3), ("d", 4, 6)];
    let written = with_rows(text, Profile::Release, &rows, "rustc 2").unwrap();
    let expected = "words\n\nCounted with rustc 2.\n\n| path | release | counted | tolerance |\n\
                    |---|---:|---:|---:|\n| a | 3 | 5 | 3% |\n| d | 4 | - | 6% |\n\nmore\n";
    assert_eq!(written, expected);
    assert!(with_rows("words", Profile::Release, &[], "").is_err());
}
