//! Neighbours of an object (systems C14), in memory and after a read around it, in every layout.

use larder_store::{LayoutName, Options, ReadUnit};
use store_oracle::key;

use crate::rig::{Rig, formatted, product, use_layout};

/// Returns the numbers of an object's neighbours.
fn neighbours(rig: &Rig, number: u32) -> Vec<u32> {
    let found = rig.store.neighbours(&key(number));
    let mut numbers: Vec<u32> =
        found.iter().map(|one| (0..200).find(|number| key(*number) == one.key).unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

fn bring(rig: &mut Rig, number: u32, refreshed: usize) {
    let store = rig.store.clone();
    rig.run(async { store.bring_neighbours(&key(number), refreshed).await });
}

/// Stores six objects of one directory (0 to 5), and among them one of another directory of the
/// site (9) and one of another site (64); replaces the metadata of 4.
fn filled(options: &Options) -> Rig {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), options.clone());
    for number in [0, 1, 9, 2, 64, 3, 4, 5] {
        rig.insert(number, 2_000).unwrap();
    }
    rig.settle_durably();
    rig.refresh(4).unwrap().unwrap();
    rig.settle_durably();
    rig
}

#[test]
fn what_was_asked_for_most_often_comes_first() {
    let mut rig = filled(&product());
    for (number, times) in [(3, 5), (64, 9), (9, 3), (0, 1)] {
        for _ in 0..times {
            rig.look(number);
        }
    }
    let first = |rig: &Rig, count| rig.store.most_used(count);
    assert_eq!(first(&rig, 3), [key(64), key(3), key(9)]);
    assert_eq!(first(&rig, 1), [key(64)]);
    assert_eq!((first(&rig, 100).len(), first(&rig, 0).len()), (8, 0));
    rig.remove(64);
    assert_eq!(first(&rig, 2), [key(3), key(9)]);
}

#[test]
fn neighbours_are_of_the_site_and_in_the_same_directory_or_cluster() {
    for layout in LayoutName::ALL {
        use_layout(layout, 0);
        let options = Options { read_unit: ReadUnit::Object, ..product() };
        let mut rig = filled(&options);
        let together = layout == LayoutName::Cluster;
        let of_3: &[u32] = if together { &[0, 1, 2, 4, 5, 9] } else { &[0, 1, 2, 4, 5] };
        assert_eq!(neighbours(&rig, 3), of_3, "{layout}");
        assert!(neighbours(&rig, 64).is_empty(), "{layout}");
        assert!(neighbours(&rig, 100).is_empty(), "{layout}: not there");
        let entry = rig.store.resident(&key(4)).unwrap();
        rig.verify(4, &entry);
        assert!(rig.store.resident(&key(100)).is_none());

        let mut rig = rig.reopen();
        rig.remove(1);
        rig.look(3);
        assert!(neighbours(&rig, 3).is_empty(), "{layout}: memory was empty");
        bring(&mut rig, 3, 0);
        let whole: &[u32] = if together { &[0, 2, 5, 9] } else { &[0, 2, 5] };
        assert_eq!(neighbours(&rig, 3), whole, "{layout}");
        bring(&mut rig, 3, 1);
        let all: &[u32] = if together { &[0, 2, 4, 5, 9] } else { &[0, 2, 4, 5] };
        assert_eq!(neighbours(&rig, 3), all, "{layout}");
        for number in 0..6 {
            rig.look(number);
        }
    }
    use_layout(LayoutName::Cluster, 0);
}

#[test]
fn what_is_on_no_device_brings_nothing() {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), product());
    bring(&mut rig, 3, 4);
    rig.insert(3, 2_000).unwrap();
    bring(&mut rig, 3, 4);
    assert!(neighbours(&rig, 3).is_empty());
    rig.settle_durably();
    bring(&mut rig, 3, 4);
    assert!(neighbours(&rig, 3).is_empty());
    rig.look(3);
}
