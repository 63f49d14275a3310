//! Checks that the drawing in the documentation matches the engine's current behaviour, and that it
//! shows each layout's characteristics.

use std::fs;
use std::path::PathBuf;

use super::example::{Example, OBJECTS, VARIANTS, example};
use super::svg::svg;
use super::text::text;

fn examples(objects: usize) -> Vec<Example> {
    VARIANTS.into_iter().map(|variant| example(variant, objects).unwrap()).collect()
}

#[test]
fn the_documentation_shows_the_layouts_as_they_are() {
    let fresh = svg(&examples(20));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/img/layouts.svg");
    if std::env::var_os("LARDER_BLESS").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    let drawn = fs::read_to_string(&path).unwrap();
    assert!(
        drawn == fresh,
        "docs/img/layouts.svg is out of date: \
         LARDER_BLESS=1 cargo test -p lab --lib layouts:: draws it again"
    );
}

#[test]
fn nothing_lies_on_anything_else_and_nothing_beyond_the_space() {
    for objects in OBJECTS {
        for example in examples(objects) {
            let mut runs: Vec<_> = example.pieces.iter().flat_map(|piece| &piece.runs).collect();
            runs.sort_by_key(|run| run.offset);
            assert!(runs.iter().all(|run| run.len > 0 && run.end() <= example.len));
            assert!(runs.windows(2).all(|pair| pair[0].end() <= pair[1].offset), "{objects}");
            let gaps: u64 = example.gaps().iter().map(|gap| gap.len).sum();
            let used: u64 = runs.iter().map(|run| run.len).sum();
            // Records in clusters start on granules of 64 bytes.
            let between = if example.cluster.is_some() { 64 * runs.len() as u64 } else { 0 };
            assert!(gaps + used <= example.len && example.len <= gaps + used + between);
        }
    }
}

#[test]
fn every_layout_shows_what_it_is_there_for() {
    for example in examples(20) {
        let live = example.pieces.iter().filter(|piece| piece.live && !piece.metadata).count();
        let split = example.pieces.iter().filter(|piece| piece.runs.len() > 1).count();
        let name = example.variant.name;
        assert_eq!(live + example.evicted.len(), 20, "{name}");
        assert_eq!(example.dead() > 0, name == "cluster", "{name}: {}", example.dead());
        assert_eq!(split > 0, name == "stream", "{name}: {split} objects in several runs");
        // Only clusters are evicted earlier than necessary for their objects.
        assert!(name == "cluster" || example.evicted.is_empty(), "{name}: {:?}", example.evicted);
        assert_eq!(text(&example).lines().count(), 6, "{name}");
    }
}
