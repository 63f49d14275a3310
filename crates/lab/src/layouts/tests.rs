//! The drawing of the documentation is the one that the engine gives today, and shows what it is
//! there to show.

use std::fs;
use std::path::PathBuf;

use super::example::{ARMS, OBJECTS, Scene, scene};
use super::svg::svg;
use super::text::text;

fn scenes(objects: usize) -> Vec<Scene> {
    ARMS.into_iter().map(|arm| scene(arm, objects).unwrap()).collect()
}

#[test]
fn the_documentation_shows_the_layouts_as_they_are() {
    let fresh = svg(&scenes(20));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/img/layouts.svg");
    if std::env::var_os("LARDER_BLESS").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    let drawn = fs::read_to_string(&path).unwrap();
    assert!(
        drawn == fresh,
        "docs/img/layouts.svg is out of date: run this test with LARDER_BLESS=1"
    );
}

#[test]
fn nothing_lies_on_anything_else_and_nothing_beyond_the_space() {
    for objects in OBJECTS {
        for scene in scenes(objects) {
            let mut runs: Vec<_> = scene.pieces.iter().flat_map(|piece| &piece.runs).collect();
            runs.sort_by_key(|run| run.offset);
            assert!(runs.iter().all(|run| run.len > 0 && run.end() <= scene.len));
            assert!(runs.windows(2).all(|pair| pair[0].end() <= pair[1].offset), "{objects}");
            let gaps: u64 = scene.gaps().iter().map(|gap| gap.len).sum();
            let used: u64 = runs.iter().map(|run| run.len).sum();
            // Records in clusters start on granules of 64 bytes.
            let between = if scene.cluster.is_some() { 64 * runs.len() as u64 } else { 0 };
            assert!(gaps + used <= scene.len && scene.len <= gaps + used + between);
        }
    }
}

#[test]
fn every_layout_shows_what_it_is_there_for() {
    for scene in scenes(20) {
        let live = scene.pieces.iter().filter(|piece| piece.live && !piece.metadata).count();
        let split = scene.pieces.iter().filter(|piece| piece.runs.len() > 1).count();
        let name = scene.arm.name;
        assert_eq!(live + scene.evicted.len(), 20, "{name}");
        assert_eq!(scene.dead() > 0, name == "cluster", "{name}: {}", scene.dead());
        assert_eq!(split > 0, name == "stream", "{name}: {split} objects in several runs");
        // Only clusters go before their objects must.
        assert!(name == "cluster" || scene.evicted.is_empty(), "{name}: {:?}", scene.evicted);
        assert_eq!(text(&scene).lines().count(), 6, "{name}");
    }
}
