//! Formats rows as CSV text.

/// Returns the rows, one a line; fields are quoted where necessary.
pub fn csv_text<R>(rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item: AsRef<[u8]>>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).expect("rows are of one length, and memory takes them");
    }
    let bytes = writer.into_inner().expect("memory takes what is left");
    String::from_utf8(bytes).expect("the fields are text")
}
