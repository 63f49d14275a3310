//! Tests which form of a file a client gets, against a naive model.

use fastrand::Rng;

use super::*;
use crate::Accepted;
use crate::Compress;

/// Returns some of the codings in random order.
fn some(rng: &mut Rng) -> Vec<Coding> {
    let mut all = Coding::ALL.to_vec();
    rng.shuffle(&mut all);
    all.truncate(rng.usize(..=3));
    all
}

#[test]
fn precompressed_files_precede_compression_on_the_fly() {
    let mut rng = Rng::with_seed(seed());
    for _ in 0..60 {
        let (tree, size, name) =
            (Tree::new(), rng.usize(..8), *rng.choice(&["a.html", "a"]).unwrap());
        tree.write(name.as_bytes(), &vec![b'x'; size]);
        let (siblings, precompressed, codings) = (some(&mut rng), some(&mut rng), some(&mut rng));
        for coding in &siblings {
            tree.write(format!("{name}{}", coding.extension()).as_bytes(), b"ready");
        }
        let (least, most) = (rng.u64(..4), rng.u64(4..8));
        let compress =
            Compress { codings: codings.clone(), types: vec!["text/html".into()], least, most };
        let ready = |coding: &Coding| siblings.contains(coding) && precompressed.contains(coding);
        let is_made =
            !codings.is_empty() && name == "a.html" && (least..=most).contains(&(size as u64));
        let options =
            Options { precompressed: precompressed.clone(), compress, ..Options::default() };
        for root in tree.roots(&options) {
            let wishes = some(&mut rng);
            let sibling = wishes.iter().copied().find(&ready);
            let made = wishes.iter().copied().find(|coding| is_made && codings.contains(coding));
            let varies = is_made || Coding::ALL.iter().any(&ready);
            let path = format!("/{name}");
            let accepted = Accepted::new(wishes.iter().copied());
            let request = Request { path: path.as_bytes(), accepted };
            let found = root.find(&request).unwrap();
            let Outcome::File(file) = found.outcome else { panic!("{found:?}") };
            let expected = (sibling, made.filter(|_| sibling.is_none()), varies);
            let context = format!("{wishes:?} of {siblings:?}, {size} bytes by {options:?}");
            assert_eq!((file.coding, file.compress, file.varies), expected, "{context}");
            let sent = root.version_of(&request).unwrap().outcome;
            let same = matches!(sent, Outcome::File(sent) if sent == file.representation());
            assert!(same, "{context}");
        }
    }
}
